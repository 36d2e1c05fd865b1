"""Gzip-compressed JSONL, decompressed on the fly."""

import os
import zlib
from collections.abc import Iterator
from gzip import BadGzipFile, GzipFile
from pathlib import Path

from services.datasets.jsonl import JsonlReader
from services.datasets.record import MAX_ROW_BYTES, Problem, Record, UnreadableFile

_MAGIC = b"\x1f\x8b"
_HEAD_BYTES = 64 * 1024
_BROKEN = (EOFError, BadGzipFile, zlib.error)


def is_gzip(path: Path) -> bool:
    """Whether a file begins as a gzip file; raises `UnreadableFile`."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise UnreadableFile(f"the file cannot be read: {error.strerror}") from error


class GzipJsonlReader(JsonlReader):
    """Rows of a gzip-compressed JSONL file; raises `UnreadableFile` where it is damaged."""

    def __init__(self, path: Path) -> None:
        """Raises `UnreadableFile` when it holds something else."""
        super().__init__(path, MAX_ROW_BYTES)
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
                for record in self.records(file):
                    row = record.row or row
                    self._share = compressed.tell() / size
                    yield record
            except _BROKEN as error:
                raise _damaged(error, row + 1) from error


def _damaged(error: Exception, row: int | None = None) -> UnreadableFile:
    return UnreadableFile(f"the gzip file is damaged or incomplete: {error}", row=row)
