"""Files of rows: bytes of one length each, one after the other, nothing else."""

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.retrieval.vectors.files import writing

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
