"""Rows of a JSONL file: one JSON value per line, blank lines skipped."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from services.datasets.containers.container import Container
from services.datasets.record import JsonValue, Problem, Record, RowError, StrictDecoder

_UTF8_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"


JOINED = "begins with a byte order mark, as where files were joined; remove the mark"


class Lines(Protocol):
    """A binary file read line by line, plain or decompressing."""

    def readline(self, size: int = -1, /) -> bytes:
        """The next line, or ``size`` bytes of a longer one."""


class JsonlReader:
    """A bad line is a problem of its row; reading continues with the next line."""

    container = Container.JSONL

    def __init__(self, path: Path, max_row_bytes: int) -> None:
        self.path = path
        self._max_row_bytes = max_row_bytes
        self._read = 0
        self._size = 1

    @property
    def share_read(self) -> float:
        """How much of the file was read, from 0 to 1."""
        return min(1.0, self._read / self._size)

    def __iter__(self) -> Iterator[Record | Problem]:
        with open(self.path, "rb") as file:
            self._size = max(1, os.fstat(file.fileno()).st_size)
            yield from self.records(file)

    def records(self, file: Lines) -> Iterator[Record | Problem]:
        """The rows of an open file."""
        decoder = StrictDecoder()
        for row, line in enumerate(self._lines(file), start=1):
            if line is None:
                yield Problem(row, f"is longer than {self._max_row_bytes:,} bytes")
            elif content := line.rstrip(_BLANKS):
                try:
                    value = _decode(decoder, content)
                except RowError as error:
                    yield Problem(row, error.message)
                else:
                    yield Record(row, value)

    def _lines(self, file: Lines) -> Iterator[bytes | None]:
        """Every line without the byte order mark of the file; None for a line that is too long."""
        self._read = 0
        limit = self._max_row_bytes + len(b"\r\n")
        while line := file.readline(limit):
            first = self._read == 0
            self._read += len(line)
            if len(line) == limit and not line.endswith(b"\n"):
                self._skip_line(file, limit)
                yield None
            elif len(line.rstrip(b"\r\n")) > self._max_row_bytes:
                yield None
            else:
                yield line.removeprefix(_UTF8_BOM) if first else line

    def _skip_line(self, file: Lines, limit: int) -> None:
        while piece := file.readline(limit):
            self._read += len(piece)
            if piece.endswith(b"\n"):
                return


def _decode(decoder: StrictDecoder, line: bytes) -> JsonValue:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise RowError(f"is not UTF-8: byte 0x{byte:02x} at position {error.start + 1}") from None
    if text.startswith("\ufeff"):
        raise RowError(JOINED)
    if "\0" in text:
        raise RowError(f"holds a NUL byte at position {text.index(chr(0)) + 1}")
    return decoder.decode(text)
