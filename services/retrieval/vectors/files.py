"""How the files of an index are written: durably, and each as a whole or not at all."""

import errno
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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


Bytes = NDArray[np.uint8]


class RowFile:
    """A file that rows of ``width`` bytes are appended to, durably.

    Part of a row, as a kill leaves it, is cut off when the file is opened.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self._width = width
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - held until `close`
        self.truncate(os.fstat(self._file.fileno()).st_size // width)

    @property
    def rows(self) -> int:
        """How many there are."""
        return self._rows

    def append(self, rows: Bytes) -> None:
        """Adds rows (n, width); on the disk on return. Raises StorageFull, and none is kept."""
        try:
            with writing(self.path):
                write_all(self._file.fileno(), rows.tobytes())
                os.fdatasync(self._file.fileno())
        except BaseException:
            self.truncate(self._rows)
            raise
        self._rows += len(rows)

    def truncate(self, rows: int) -> None:
        """Drops what comes after so many rows."""
        os.ftruncate(self._file.fileno(), rows * self._width)
        os.fsync(self._file.fileno())
        self._rows = rows

    def close(self) -> None:
        """Gives the file back."""
        self._file.close()


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it; one system call may write less."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def mapped(path: Path, rows: int, width: int) -> Bytes:
    """The rows of a file, (rows, width), mapped into memory and read when they are looked at."""
    if not rows:
        return np.empty((0, width), dtype=np.uint8)
    with open(path, "rb") as file:
        pages = mmap.mmap(file.fileno(), rows * width, prot=mmap.PROT_READ)
    return np.frombuffer(pages, dtype=np.uint8).reshape(rows, width)


def chunks(start: int, end: int, length: int) -> Iterator[slice]:
    """The rows from ``start`` to ``end``, so many at a time."""
    for first in range(start, end, length):
        yield slice(first, min(first + length, end))
