"""What reading a file of rows yields: rows, rows with a problem, or a file that cannot be read."""

import reprlib
from dataclasses import dataclass
from typing import Any

from services.contracts.errors import TemperError

JsonValue = Any
"""A value that JSON can express: finite numbers, text without lone surrogates, bounded depth."""

MAX_ROW_BYTES = 16 * 2**20
"""A longer row is a problem; it bounds the memory that reading a file takes."""

MAX_DEPTH = 100
"""How deep objects and lists of a row may be nested."""


@dataclass(frozen=True, slots=True)
class Record:
    """A row, counted from 1; in JSONL the row is the line, so that an editor finds it."""

    row: int
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a row cannot be used, or, without a row, why the whole file cannot."""

    row: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.row is None else f"row {self.row}: {self.message}"


class UnreadableFile(TemperError):
    """The content of a file cannot be read any further; ``problem`` names the place."""

    code = "unreadable_file"

    def __init__(self, message: str, *, row: int | None = None) -> None:
        self.problem = Problem(row, message)
        super().__init__(str(self.problem))


class RowError(TemperError):
    """A row does not follow its layout; the message names the path, not the row."""

    code = "invalid_row"


def counted(number: int, noun: str) -> str:
    """A number with its noun, as in ``1 row`` and ``4,000 rows``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def shown(value: JsonValue) -> str:
    """A short form of any value for a message: on one line, printable, and of bounded length."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    return _SHORT.repr(value)
