"""The result of reading a file of rows: records, problems of single rows, or an unreadable file."""

import reprlib
from dataclasses import dataclass
from typing import Any

from services.contracts.errors import TemperError

JsonValue = Any
"""Any JSON value: finite numbers, no lone surrogates, bounded depth."""

MAX_ROW_BYTES = 16 * 2**20
"""Longer rows are rejected, to bound the memory that reading takes."""

MAX_DEPTH = 100
"""Maximum nesting of objects and lists in a row."""


@dataclass(frozen=True, slots=True)
class Record:
    """A row, counted from 1; in JSONL it is the line number."""

    row: int
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a row is unusable or, with ``row`` None, why the whole file is."""

    row: int | None
    message: str

    def __str__(self) -> str:
        return self.message if self.row is None else f"row {self.row}: {self.message}"


class UnreadableFile(TemperError):
    """The rest of a file cannot be read; ``problem`` says where."""

    code = "unreadable_file"

    def __init__(self, message: str, *, row: int | None = None) -> None:
        self.problem = Problem(row, message)
        super().__init__(str(self.problem))


class RowError(TemperError):
    """A row does not match its format; the message names the path inside the row."""

    code = "invalid_row"


def counted(number: int, noun: str) -> str:
    """A number with its noun, as in ``1 row`` and ``4,000 rows``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60


def shown(value: JsonValue) -> str:
    """A short, printable, one-line form of a value for messages."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    return _SHORT.repr(value)
