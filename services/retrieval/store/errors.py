"""What can be wrong with an index, each with the response it becomes."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.contracts.errors import (
    Conflict,
    NotFound,
    PermissionDenied,
    StorageFull,
    TemperError,
    Unavailable,
)


class UnknownIndex(NotFound):
    """No index has that name."""

    code = "index_not_found"


class IndexUnusable(Unavailable):
    """The index is damaged, half-written or of another format; the message says where and how."""

    code = "index_unusable"


class IndexBusy(Conflict):
    """Another build or change has the index; the same request may succeed later."""

    code = "index_busy"


class IndexReadOnly(PermissionDenied):
    """The index lies where this process may not write."""

    code = "index_read_only"


class IndexFull(Conflict):
    """So much was added since the index was built that it has to be built again."""

    code = "index_full"


class OutOfDisk(StorageFull):
    """The disk of the index is full; the index is as it was."""

    code = "out_of_disk"


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SIGNS = ("StorageFull", "QuotaExceeded", "FileTooLarge", *map(os.strerror, _FULL))
"""The library wraps the system's errors into texts of its own."""


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Raise OutOfDisk where the disk of ``path`` is full, and IndexUnusable for other failures."""
    with reading_from(path):
        try:
            yield
        except Exception as error:
            if _is_full(error):
                raise OutOfDisk(f"the disk of {path} is full; the index is as it was") from error
            raise


@contextmanager
def reading_from(path: Path) -> Iterator[None]:
    """Raise IndexUnusable, with the reason, where a library cannot make sense of ``path``."""
    try:
        yield
    except TemperError:
        raise
    except (OSError, ValueError) as error:
        raise IndexUnusable(f"{path}: {error}") from error
    except BaseException as error:
        # A panic of the library is no Exception, and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise IndexUnusable(f"{path} is damaged: {error}") from None


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL
    return any(sign in str(error) for sign in _SIGNS)
