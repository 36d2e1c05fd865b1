"""How the files of an index are written: durably, and each as a whole or not at all."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from services.contracts.errors import StorageFull

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise StorageFull, naming ``path``, where what is done inside finds the disk full.

    faiss tells of a failed write in words only, so that its errors count as such when there is
    indeed no room left.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise _full(path) from error
        raise
    except RuntimeError as error:
        if _has_no_room(path):
            raise _full(path) from error
        raise


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` make a file aside, then give it its place, durably."""
    aside = path.with_name(path.name + ".partial")
    with writing(path):
        write(aside)
        sync(aside)
        aside.replace(path)
        sync(path.parent)


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _full(path: Path) -> StorageFull:
    return StorageFull(f"the disk of {path} is full")


def _has_no_room(path: Path) -> bool:
    usage = os.statvfs(path.parent)
    return usage.f_bavail * usage.f_frsize < 1 << 20
