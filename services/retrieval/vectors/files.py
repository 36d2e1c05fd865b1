"""Durable writes of index files, and files of fixed-width rows."""

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
    """Raise StorageFull, naming ``path``, when the block fails because the disk is full.

    faiss reports failed writes as text only, so its errors count when no space is left.
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
    """Have ``write`` create a temporary file, then rename it into place durably."""
    aside = path.with_name(path.name + ".partial")
    with writing(path):
        write(aside)
        sync(aside)
        aside.replace(path)
        sync(path.parent)


def sync(path: Path) -> None:
    """fsync a file or a folder."""
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
    """An append-only file of rows of ``width`` bytes.

    A partial row left by a kill is cut off on open.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self._width = width
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - held until `close`
        self.truncate(os.fstat(self._file.fileno()).st_size // width)

    @property
    def rows(self) -> int:
        """Complete rows."""
        return self._rows

    def append(self, rows: Bytes) -> None:
        """Append rows (n, width), durable on return. Raises StorageFull and keeps none."""
        try:
            with writing(self.path):
                write_all(self._file.fileno(), rows.tobytes())
                os.fdatasync(self._file.fileno())
        except BaseException:
            self.truncate(self._rows)
            raise
        self._rows += len(rows)

    def truncate(self, rows: int) -> None:
        """Keep the first ``rows`` rows."""
        os.ftruncate(self._file.fileno(), rows * self._width)
        os.fsync(self._file.fileno())
        self._rows = rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_all(descriptor: int, content: bytes) -> None:
    """Write everything; a single write may be short."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def mapped(path: Path, rows: int, width: int) -> Bytes:
    """The rows of a file as a memory-mapped array (rows, width)."""
    if not rows:
        return np.empty((0, width), dtype=np.uint8)
    with open(path, "rb") as file:
        pages = mmap.mmap(file.fileno(), rows * width, prot=mmap.PROT_READ)
    return np.frombuffer(pages, dtype=np.uint8).reshape(rows, width)


def chunks(start: int, end: int, length: int) -> Iterator[slice]:
    """Slices of at most ``length`` rows from ``start`` to ``end``."""
    for first in range(start, end, length):
        yield slice(first, min(first + length, end))
