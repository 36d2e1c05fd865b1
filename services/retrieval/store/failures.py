"""What the libraries' failures mean: a full disk, or files that are not what they should be."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.contracts.errors import TemperError
from services.retrieval.store.errors import IndexUnusable, OutOfDisk

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
