"""Errors of indexes, and the translation of library failures into them."""

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
    """There is no index of that name."""

    code = "index_not_found"


class IndexUnusable(Unavailable):
    """The index is damaged, unfinished or of another format; the message says where."""

    code = "index_unusable"


class IndexBusy(Conflict):
    """Another build or change holds the index; retrying may succeed."""

    code = "index_busy"


class IndexReadOnly(PermissionDenied):
    """This process may not write to the index's folder."""

    code = "index_read_only"


class IndexFull(Conflict):
    """Too much was added since the build; the index must be rebuilt."""

    code = "index_full"


class OutOfDisk(StorageFull):
    """The index's disk is full; the index is unchanged."""

    code = "out_of_disk"


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SIGNS = ("StorageFull", "QuotaExceeded", "FileTooLarge", *map(os.strerror, _FULL))
"""tantivy wraps OS errors into texts."""


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Raise OutOfDisk when the disk of ``path`` is full, IndexUnusable for other failures."""
    with reading_from(path):
        try:
            yield
        except Exception as error:
            if _is_full(error):
                raise OutOfDisk(f"the disk of {path} is full; the index is unchanged") from error
            raise


@contextmanager
def reading_from(path: Path) -> Iterator[None]:
    """Raise IndexUnusable when a library cannot read ``path``."""
    try:
        yield
    except TemperError:
        raise
    except (OSError, ValueError) as error:
        raise IndexUnusable(f"{path}: {error}") from error
    except BaseException as error:
        # A Rust panic is not an Exception, and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise IndexUnusable(f"{path} is damaged: {error}") from None


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _FULL
    return any(sign in str(error) for sign in _SIGNS)
