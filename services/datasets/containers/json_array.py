"""Rows of a JSON file: the elements of one top-level array.

The standard library's decoder runs over a sliding window of the text instead of a streaming parser,
because ijson's C backend (3.6) crashes the process on a number of 5,000 digits, silently replaces
lone surrogates and does not limit the size of an element.
"""

import codecs
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from services.datasets.containers.container import Container
from services.datasets.record import (
    Problem,
    Record,
    RowError,
    Scanned,
    StrictDecoder,
    UnreadableFile,
    reason,
)

_CHUNK_BYTES = 64 * 1024
_BLANKS = re.compile(r"[ \t\r\n]*")

_LONGEST_TOKEN = 12
"""Longest literal, escape or number prefix that the end of a window may cut."""


class TextWindow:
    """A sliding window over a file's UTF-8 text, beginning at or before ``position``."""

    def __init__(self, file: BinaryIO) -> None:
        self.text = ""
        self.position = 0
        self.ended = False
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._lines = 1
        self._columns = 0

    def peek(self) -> str:
        """Move to the next non-blank character and return it, or "" at the end."""
        while True:
            blanks = _BLANKS.match(self.text, self.position)
            if blanks is not None:
                self.position = blanks.end()
            if self.position < len(self.text):
                return self.text[self.position]
            if self.ended:
                return ""
            self.grow()

    def skip(self, character: str) -> bool:
        """Skip blanks and then ``character``, if it comes next."""
        if self.peek() != character:
            return False
        self.position += 1
        return True

    def grow(self) -> None:
        """Drop the text before ``position``, then double the rest or read one chunk."""
        self._discard_read()
        wanted = max(_CHUNK_BYTES, len(self.text))
        pending = len(self._decoder.getstate()[0])
        offset = self._file.tell() - pending
        chunk = self._file.read(wanted)
        self.ended = len(chunk) < wanted
        try:
            self.text += self._decoder.decode(chunk, self.ended)
        except UnicodeDecodeError as error:
            byte = error.object[error.start]
            place = f"byte 0x{byte:02x} at offset {offset + error.start}"
            raise UnreadableFile(f"the file is not UTF-8: {place}") from None

    def place(self, position: int | None = None) -> str:
        """The line and column of ``position``, counted from 1."""
        seen = self.text[: self.position if position is None else position]
        breaks = seen.count("\n")
        columns = len(seen) - seen.rfind("\n") - 1 if breaks else self._columns + len(seen)
        return f"line {self._lines + breaks}, column {columns + 1}"

    def _discard_read(self) -> None:
        seen = self.text[: self.position]
        breaks = seen.count("\n")
        self._lines += breaks
        self._columns = len(seen) - seen.rfind("\n") - 1 if breaks else self._columns + len(seen)
        self.text = self.text[self.position :]
        self.position = 0


class JsonArrayReader:
    """A bad element is a problem of its row; bad syntax makes the rest unreadable."""

    container = Container.JSON

    def __init__(self, path: Path, max_row_bytes: int) -> None:
        self._path = path
        self._max_row_bytes = max_row_bytes
        self.share_read = 0.0

    def __iter__(self) -> Iterator[Record | Problem]:
        decoder = StrictDecoder()
        with open(self._path, "rb") as file:
            size = max(1, os.fstat(file.fileno()).st_size)
            window = TextWindow(file)
            window.skip("[")
            row, more = 0, window.peek() != "]"
            while more:
                row += 1
                yield self._element(decoder, window, row)
                self.share_read = min(1.0, file.tell() / size)
                more = window.skip(",")
            _close(window, row)

    def _element(self, decoder: StrictDecoder, window: TextWindow, row: int) -> Record | Problem:
        window.peek()
        while (scanned := _scan(decoder, window, row)) is None:
            if len(window.text) - window.position > self._max_row_bytes:
                raise UnreadableFile(self._too_long(), row=row)
            window.grow()
        start, window.position = window.position, scanned.end
        if scanned.end - start > self._max_row_bytes:
            return Problem(row, self._too_long())
        if scanned.fault is not None:
            return Problem(row, scanned.fault)
        return Record(row, scanned.value)

    def _too_long(self) -> str:
        return f"is longer than {self._max_row_bytes:,} bytes"


def _scan(decoder: StrictDecoder, window: TextWindow, row: int) -> Scanned | None:
    """The element at the window's position; None if it may not be complete yet."""
    try:
        scanned = decoder.scan(window.text, window.position)
    except json.JSONDecodeError as error:
        if window.ended or not _may_be_cut(error):
            raise _broken(window, error, row) from None
        return None
    except RowError as error:
        raise UnreadableFile(f"{error.message} ({window.place()})", row=row) from None
    # The window may also end inside a number whose first digits are a number too.
    whole = window.ended or len(window.text) - scanned.end > _LONGEST_TOKEN
    return scanned if whole else None


def _may_be_cut(error: json.JSONDecodeError) -> bool:
    """Whether the error may only come from the end of the window, so that more text resolves it."""
    at_end = len(error.doc) - error.pos <= _LONGEST_TOKEN
    return at_end or error.msg.startswith("Unterminated string")


def _broken(window: TextWindow, error: json.JSONDecodeError, row: int) -> UnreadableFile:
    if not error.doc[error.pos :].strip() or error.msg.startswith("Unterminated string"):
        place = window.place(len(error.doc))
        return UnreadableFile(f"the file ends in the middle of this row, at {place}", row=row)
    place = window.place(error.pos)
    return UnreadableFile(f"is not valid JSON: {reason(error)} at {place}", row=row)


def _close(window: TextWindow, rows: int) -> None:
    place = window.place()
    if not window.skip("]"):
        if window.peek():
            raise UnreadableFile(f"expecting ',' or ']' after row {rows}, at {place}")
        raise UnreadableFile(f"the file ends after row {rows} without a closing ']', at {place}")
    if window.peek():
        raise UnreadableFile(f"there is more text after the array, at {window.place()}")
