"""Compares a program's whole output with an expected one."""

import json
import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from services.contracts.sandbox.cases import Match


def matches(stdout: bytes, expected: str, rule: Match, tolerance: float = 0.0) -> bool:
    """Whether an output is the expected one.

    `Match.LINES` ignores whitespace at line ends (including CRLF) and trailing empty lines.
    `Match.NUMBERS` also compares words that are finite numbers by value, as LiveCodeBench does, and
    `Match.JSON` compares JSON values, of which true is not 1; both within ``tolerance``. No output
    raises.
    """
    wanted = expected.encode()
    if stdout == wanted:
        return True
    match rule:
        case Match.EXACT:
            return False
        case Match.LINES:
            return _lines(stdout) == _lines(wanted)
        case Match.NUMBERS:
            return _have_equal_lines(_lines(stdout), _lines(wanted), tolerance)
        case Match.JSON:
            return _have_equal_values(stdout, expected, tolerance)


def _lines(text: bytes) -> list[bytes]:
    return [line.rstrip() for line in text.rstrip().split(b"\n")]


def _have_equal_lines(lines: list[bytes], wanted: list[bytes], tolerance: float) -> bool:
    return len(lines) == len(wanted) and all(
        one == other or _have_equal_words(one.split(), other.split(), tolerance)
        for one, other in zip(lines, wanted, strict=True)
    )


def _have_equal_words(words: Sequence[bytes], wanted: Sequence[bytes], tolerance: float) -> bool:
    if len(words) != len(wanted):
        return False
    pairs = zip(words, wanted, strict=True)
    return all(a == b or _are_equal_numbers(a, b, tolerance) for a, b in pairs)


def _are_equal_numbers(word: bytes, wanted: bytes, tolerance: float) -> bool:
    """Whether both words are finite numbers of nearly the same value."""
    try:
        one, other = Decimal(word.decode()), Decimal(wanted.decode())
    except (InvalidOperation, UnicodeDecodeError):
        return False
    # Even == raises for a signaling NaN.
    if not (one.is_finite() and other.is_finite()):
        return False
    return one == other or _are_near(float(one), float(other), tolerance)


def _have_equal_values(stdout: bytes, expected: str, tolerance: float) -> bool:
    try:
        return _are_equal(json.loads(stdout), json.loads(expected), tolerance)
    except (ValueError, RecursionError):
        return False


def _are_equal(value: Any, wanted: Any, tolerance: float) -> bool:
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(
            _are_equal(one, other, tolerance) for one, other in zip(value, wanted, strict=True)
        )
    if isinstance(value, dict) and isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(
            _are_equal(value[key], wanted[key], tolerance) for key in value
        )
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        return value == wanted or _are_near(value, wanted, tolerance)
    return type(value) is type(wanted) and bool(value == wanted)


def _are_near(value: float, wanted: float, tolerance: float) -> bool:
    """Whether two numbers are close; none beyond all floats is."""
    if not tolerance:
        return False
    try:
        is_held = math.isfinite(value) and math.isfinite(wanted)
        return is_held and math.isclose(value, wanted, rel_tol=tolerance, abs_tol=tolerance)
    except OverflowError:  # an integer beyond all floats
        return False
