"""Parses large JSON texts without holding the interpreter lock for long.

A parser written in C holds it until the end of the text: the event loop stands still even if the
parser runs in a thread. Here long strings are cut out and decoded in pieces; what is left is small.
"""

import json
import re
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

_LONG_BYTES = 256
_PIECE_BYTES = 256 << 10
_ESCAPE_BYTES = 6
_MOST_QUOTES = 100
"""Escaped quotes that are looked for one by one: faster than a pattern where there are few."""
_INSIDE = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_QUOTE, _BACKSLASH = b'"\\'


class TooManyValues(ValueError):
    """The text has more values than allowed: in memory each is far larger than its text."""


def parse_large(text: bytes, most_values: int) -> Any:
    """The value of a JSON text; lone surrogates become U+FFFD.

    Raises `TooManyValues`, and ValueError or RecursionError if it is not JSON.
    """
    mark = secrets.token_hex(16)
    rest: list[bytes] = []
    long: dict[str, str] = {}
    values, at = 0, 0
    while True:
        start = text.find(b'"', at)
        outside = text[at : len(text) if start < 0 else start]
        values += sum(map(outside.count, (b",", b"[", b"{")))
        if values > most_values:
            raise TooManyValues(f"more than {most_values} values")
        rest.append(outside)
        if start < 0:
            break
        end = _end_of_string(text, start + 1)
        if end - start > _LONG_BYTES:
            name = f"{mark}{len(long)}"
            long[name] = "".join(_decoded(text, start + 1, end))
            rest.append(f'"{name}"'.encode())
        else:
            rest.append(text[start : end + 1])
        at = end + 1
    return _completed(json.loads(b"".join(rest).decode()), long)


def _end_of_string(text: bytes, at: int) -> int:
    """The position of the closing quote."""
    for _ in range(_MOST_QUOTES):
        quote = text.find(b'"', at)
        if quote < 0:
            raise ValueError("a string has no end")
        if _backslashes(text, at, quote) % 2 == 0:
            return quote
        at = quote + 1
    while at < len(text):
        if text[at] == _QUOTE:
            return at
        # An escape that the end of a piece would cut in two is skipped as a whole.
        inside = _INSIDE.match(text, at, at + _PIECE_BYTES)
        at = inside.end() if inside is not None and inside.end() > at else at + 2
    raise ValueError("a string has no end")


def _backslashes(text: bytes, start: int, end: int) -> int:
    """How many backslashes stand before ``end``, at most back to ``start``."""
    if end == start or text[end - 1] != _BACKSLASH:
        return 0
    before = text[start:end]
    return len(before) - len(before.rstrip(b"\\"))


def _decoded(text: bytes, at: int, end: int) -> Iterator[str]:
    """A string in pieces."""
    first_half = ""
    while at < end:
        stop = _end_of_piece(text, at, end)
        if stop == at:
            raise ValueError("invalid escape")
        piece = first_half + json.loads(f'"{text[at:stop].decode()}"')
        is_half = stop < end and "\ud800" <= piece[-1] <= "\udbff"
        first_half = piece[-1] if is_half else ""
        yield _without_lone_surrogates(piece[:-1] if is_half else piece)
        at = stop


def _end_of_piece(text: bytes, at: int, end: int) -> int:
    """Where a piece of the string from ``at`` can end: between characters and escapes."""
    stop = at + _PIECE_BYTES
    if stop >= end:
        return end
    last = text.rfind(b"\\", max(at, stop - _ESCAPE_BYTES), stop)
    if last >= 0 and _backslashes(text, at, last + 1) % 2:
        length = _ESCAPE_BYTES if text[last + 1 : last + 2] == b"u" else 2
        if last + length > stop:
            return last
    while stop > at and text[stop] & 0xC0 == 0x80:  # within a character
        stop -= 1
    return stop


def _without_lone_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _completed(value: Any, long: Mapping[str, str]) -> Any:
    """The value with its long strings in their places, and without lone surrogates."""
    if isinstance(value, str):
        return long[value] if value in long else _without_lone_surrogates(value)
    if isinstance(value, list):
        return [_completed(item, long) for item in value]
    if isinstance(value, dict):
        return {_completed(key, long): _completed(item, long) for key, item in value.items()}
    return value
