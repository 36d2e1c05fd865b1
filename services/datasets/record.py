"""Rows of a file: their values, decoded strictly, and the problems of rows and of the whole file.

Decoding is stricter than the standard library's: it rejects duplicate keys, NaN and infinity, lone
surrogates and nesting beyond `MAX_DEPTH`, because readers of the same file disagree about these or
fail later.
"""

import json
import math
import re
import reprlib
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

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


_BLANKS = " \t\r\n"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")
_TOO_DEEP = f"is nested more than {MAX_DEPTH} levels deep"


class Scanned(NamedTuple):
    """A value, the end of its text, and the rule that it violates, if any."""

    value: JsonValue
    end: int
    fault: str | None


class StrictDecoder:
    """Decodes values; not thread-safe."""

    def __init__(self) -> None:
        self._fault: str | None = None
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object, parse_float=self._float, parse_constant=self._constant
        )

    def decode(self, text: str) -> JsonValue:
        """Decode a text that is one value; raises RowError."""
        start = len(text) - len(text.lstrip(_BLANKS))
        try:
            value, end, fault = self.scan(text, start)
        except json.JSONDecodeError as error:
            place = f"at character {error.pos + 1}"
            raise RowError(f"is not valid JSON: {reason(error)} {place}") from None
        if rest := text[end:].lstrip(_BLANKS):
            place = f"at character {len(text) - len(rest) + 1}"
            raise RowError(f"has more text after its JSON value, {place}")
        if fault is not None:
            raise RowError(fault)
        return value

    def scan(self, text: str, start: int) -> Scanned:
        """Decode the value that begins at ``start``; text may follow it. Raises JSONDecodeError for
        a syntax error, and RowError for a value whose end cannot be found.
        """
        self._fault = None
        try:
            value, end = self._decoder.raw_decode(text, start)
        except json.JSONDecodeError:
            raise
        except RecursionError:
            raise RowError(_TOO_DEEP) from None
        except ValueError:
            raise RowError("holds an integer with too many digits") from None
        return Scanned(value, end, self._fault or _fault(value, text, start, end))

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key in value if counts[key] > 1)
            self._fault = self._fault or f"has the key {shown(twice)} twice in one object"
        return value

    def _float(self, digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            self._fault = self._fault or f"holds a number that is too large: {digits[:20]}"
        return number

    def _constant(self, name: str) -> float:
        self._fault = self._fault or f"holds {name}, which is not JSON"
        return 0.0


def decode_within(text: str, path: str) -> JsonValue:
    """Decode a row's embedded JSON text; raises a RowError that names the path."""
    try:
        return StrictDecoder().decode(text)
    except RowError as error:
        raise RowError(f"{path} {error.message}") from None


def reason(error: json.JSONDecodeError) -> str:
    """The decoder's message, to be followed by a position."""
    message = error.msg.removesuffix(" at")
    return message[0].lower() + message[1:]


def _fault(value: JsonValue, text: str, start: int, end: int) -> str | None:
    brackets = text.count("{", start, end) + text.count("[", start, end)
    if brackets > MAX_DEPTH and exceeds_depth(value):
        return _TOO_DEEP
    if _SURROGATE_ESCAPE.search(text, start, end):
        return _lone_surrogate(value)
    return None


def exceeds_depth(value: JsonValue) -> bool:
    """Whether objects and lists are nested more than MAX_DEPTH deep; needs no recursion."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(MAX_DEPTH):
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]
    return bool(level)


def _lone_surrogate(value: JsonValue) -> str | None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        escape = f"\\u{ord(error.object[error.start]):04x}"
        return f"contains half of a surrogate pair ({escape}), which is not text"
    return None


def without_padding(row: JsonValue) -> JsonValue:
    """A row without the null keys of objects inside its columns; a null column stays.

    A column of objects has one set of keys: in Parquet, and in JSON Lines that the datasets library
    writes, an object has null for each key that only others have. A tool would seem to have the
    parameters of all others, and the model would learn to pass null for them.
    """
    if not isinstance(row, dict):
        return row
    return {name: _unpadded(value) for name, value in row.items()}


def _unpadded(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _unpadded(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_unpadded(item) for item in value]
    return value
