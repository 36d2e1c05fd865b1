"""Rows of a JSON file: the elements of one top-level array.

The standard library's decoder runs over a sliding window of the text instead of a streaming
parser, because ijson's C backend (3.6) crashes the process on a number of 5,000 digits, replaces
lone surrogates silently and sets no limit to the size of an element.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from services.datasets.container import Container
from services.datasets.decoding import Scanned, StrictDecoder, reason
from services.datasets.record import Problem, Record, RowError, UnreadableFile
from services.datasets.text_window import TextWindow

_LONGEST_TOKEN = 12
"""No literal, escape or prefix of a number that the end of a window may cut is longer."""


class JsonArrayReader:
    """An element that breaks a rule is a problem of its row; broken syntax ends the reading."""

    container = Container.JSON

    def __init__(self, path: Path, max_row_bytes: int) -> None:
        self._path = path
        self._max_row_bytes = max_row_bytes
        self._share_read = 0.0

    @property
    def share_read(self) -> float:
        """How much of the file was read, from 0 to 1."""
        return self._share_read

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
                self._share_read = min(1.0, file.tell() / size)
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
    """The element at the window's position; None if the window may end before the element."""
    try:
        scanned = decoder.scan(window.text, window.position)
    except json.JSONDecodeError as error:
        if window.ended or not _may_be_cut(error):
            raise _broken(window, error, row) from None
        return None
    except RowError as error:
        raise UnreadableFile(f"{error.message} ({window.place()})", row=row) from None
    # The end of the window may also cut a bare number into two that are both numbers.
    whole = window.ended or len(window.text) - scanned.end > _LONGEST_TOKEN
    return scanned if whole else None


def _may_be_cut(error: json.JSONDecodeError) -> bool:
    """Whether more text may mend the error: the window's end, not the file, broke the syntax."""
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
