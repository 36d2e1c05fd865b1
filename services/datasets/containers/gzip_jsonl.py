"""Gzip-compressed JSONL, decompressed on the fly."""

import os
import zlib
from collections.abc import Iterator
from gzip import BadGzipFile, GzipFile
from pathlib import Path

from services.datasets.containers.container import Container
from services.datasets.containers.jsonl import JsonlReader
from services.datasets.record import Problem, Record, UnreadableFile

MAX_EXPANSION = 200
EXPANDED_BYTES = 64 * 2**20
"""A file must not both expand to more than this and by more than `MAX_EXPANSION`."""

_HEAD_BYTES = 64 * 1024
_BROKEN = (EOFError, BadGzipFile, zlib.error)


class GzipJsonlReader(JsonlReader):
    """Rows of a gzip-compressed JSONL file; raises `UnreadableFile` where it is damaged."""

    container = Container.GZIP

    def __init__(self, path: Path, max_row_bytes: int) -> None:
        """Raises `UnreadableFile` when it holds something else."""
        super().__init__(path, max_row_bytes)
        self._share = 0.0
        try:
            with GzipFile(path) as file:
                head = file.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
        except _BROKEN as error:
            raise _damaged(error) from error
        if not head.startswith(b"{"):
            raise UnreadableFile("the gzip file does not hold JSONL, the only content it may have")

    @property
    def share_read(self) -> float:
        """Fraction of the compressed file read so far, from 0 to 1."""
        return self._share

    def __iter__(self) -> Iterator[Record | Problem]:
        row = 0
        with open(self.path, "rb") as compressed, GzipFile(fileobj=compressed) as file:
            size = os.fstat(compressed.fileno()).st_size
            try:
                for record in self.records(_Bounded(file, size)):
                    row = record.row or row
                    self._share = compressed.tell() / size
                    yield record
            except _BROKEN as error:
                raise _damaged(error, row + 1) from error


class _Bounded:
    """The lines of a compressed file of ``size`` bytes, as far as it may expand."""

    def __init__(self, file: GzipFile, size: int) -> None:
        self._file = file
        self._left = max(EXPANDED_BYTES, MAX_EXPANSION * size)

    def readline(self, size: int = -1, /) -> bytes:
        line = self._file.readline(size)
        self._left -= len(line)
        if self._left < 0:
            raise UnreadableFile(f"the gzip file expands more than {MAX_EXPANSION} times")
        return line


def _damaged(error: Exception, row: int | None = None) -> UnreadableFile:
    return UnreadableFile(f"the gzip file is damaged or incomplete: {error}", row=row)
