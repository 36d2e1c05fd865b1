"""Reads numbers written without arithmetic: ``-1234.5``, ``\\frac{3}{4}``, ``6.02e23``.

Expressions that need evaluation (``81 + 535``, ``2^{10}``, ``\\sum_{i=1}^{3} i``) are not read.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from services.rewards.answers.writing import without_text_commands
from services.rewards.mathematics.notation import is_function
from services.rewards.mathematics.units import (
    DEGREES,
    NONE,
    Words,
    are_names,
    fit,
    is_symbol,
    is_unit,
    read_words,
)

MAX_EXPONENT = 5000
"""Maximum exponent of a power of ten; a number with a larger one is not read."""
_MIN_PLACES = 6
"""Decimals that a rounded number must show to equal a fraction that has no finite decimal form."""

_DECIMAL = r"(?:\d+(?:\.\d*)?|\.\d+)"
_POWER = r"(?:[eE](?P<e>[+-]?\d{1,9})|\*10\^\{?(?P<power>[+-]?\d{1,9})\}?)"
_SCIENTIFIC = re.compile(rf"(?P<sign>[+-]?)(?P<decimal>{_DECIMAL}){_POWER}?")
_TEN = re.compile(r"(?P<sign>[+-]?)10\^\{?(?P<power>[+-]?\d{1,9})\}?")
_REPEATING = re.compile(r"(?P<sign>[+-]?)(?P<whole>\d*)\.(?P<head>\d*)\\overline\{(?P<tail>\d+)\}")
_PART = rf"[+-]?{_DECIMAL}"
_FRACTION = re.compile(
    rf"(?P<sign>[+-]?)(?P<whole>\d*)\\frac(?:\{{(?P<over>{_PART})\}}|(?P<digit>\d))"
    rf"(?:\{{(?P<under>{_PART})\}}|(?P<last>\d))"
    rf"|(?P<left>{_PART})/(?P<right>{_PART})"
)
_COMMAND = r"\\(?:text(?:rm|bf|it|sf|tt|normal)?|math(?:rm|bf|it)|mbox)"
_NUMBER_IN_TEXT = re.compile(rf"{_COMMAND}\s*\{{\s*([-\d.]+\s*%?)\s*\}}")
_WRITTEN = r"(?:[^{}\d]|\^-?[123])*"
"""What a command for text may hold behind a number: words, and the powers of units."""
_COUNT_IN_TEXT = re.compile(rf"{_COMMAND}\s*\{{\s*([-\d.]+)\s*({_WRITTEN})\}}")
_POWER_IN_BRACES = re.compile(r"(?<=[A-Za-z}])\^\{(-?[123])\}(?!\d)")
_BAD_GROUPS = re.compile(r"\d\s+(?!\d{3}(?!\d))\d")
_TEXT = rf"(?:\\mu\s*)?{_COMMAND}\s*\{{{_WRITTEN}\}}"
_RATE = re.compile(
    rf"\\frac\s*\{{\s*({_TEXT})\s*\}}\s*\{{\s*({_TEXT}(?:\^[23])?)\s*\}}\Z"  # m over s
)
_WORDS = re.compile(
    r"(?P<number>.*?(?:[\d}.)%!]|\\pi(?=\s*\\|\s+[^\W\d_]{2})))\s*(?:"
    rf"(?P<text>{_TEXT}(?:\s*+(?:\^-?[123])?\s*+[/*]?\s*+{_TEXT})*+)"
    r"|\s(?P<word>[AaPp]\.\s?[Mm]|[^\W\d_]+(?:(?:\.?\s+|/)[^\W\d_]+)*))"
    r"\s*+\.?(?:\^\s*\{?(?P<dimension>-?[123])\}?)?|(?P<angle>.*\d)\s*°"
    rf"|(?P<degrees>[-+]?{_DECIMAL})\s*°\s*(?P<scale>[CFK]|{_TEXT}|[^\W\d_]{{3,}})\s*\.?"
)


@dataclass(frozen=True)
class Quantity:
    """A number and what is known of how it was written.

    ``places`` counts its decimals, None for a fraction. ``unit`` are the words behind it, as
    `Words` has them.
    """

    value: Fraction
    places: int | None
    is_percent: bool
    unit: frozenset[str]

    def equals(self, other: "Quantity") -> bool:
        """Whether both are the same number of the same; a missing unit fits any other.

        A percentage also equals its number without the sign. A fraction equals a decimal number
        that is cut or rounded to at least six places.
        """
        if not fit(self.unit, other.unit):
            return False
        if self.is_percent == other.is_percent:
            return self._matches(other, Fraction(1))
        scale = Fraction(1, 100) if self.is_percent else Fraction(100)
        return self._matches(other, Fraction(1)) or self._matches(other, scale)

    def _matches(self, other: "Quantity", scale: Fraction) -> bool:
        value = self.value * scale
        if value == other.value:
            return True
        if (self.places is None) == (other.places is None):
            return False
        places = max(self.places or 0, other.places or 0)
        return places >= _MIN_PLACES and abs(value - other.value) <= Fraction(1, 10**places)


def read_quantity(text: str) -> Quantity | None:
    """The number that a text in the notation of `notation` consists of; None for anything else."""
    text = _NUMBER_IN_TEXT.sub(r"\1", text.strip())
    number, words = without_words(text)
    if _BAD_GROUPS.search(number):
        return None
    number = "".join(number.split())
    is_percent = number.endswith("%") or words.is_percent
    number = number.removesuffix("%")
    while number.startswith(("(", "{")) and number.endswith((")", "}")):
        number = number[1:-1]
    read = _read(number.removesuffix(".") if number.count(".") == 1 else number)
    if read is None:
        return None
    value, places = read
    return Quantity(value * words.scale, places, is_percent, words.unit)


def without_words(text: str) -> tuple[str, Words]:
    """A text without the words behind its last digit or bracket, and these."""
    text = " ".join(text.split())
    text = _RATE.sub(r"\1/\2", _POWER_IN_BRACES.sub(r"^\1", text))
    if count := _COUNT_IN_TEXT.fullmatch(text):
        text = f"{count[1]} \\text{{{count[2]}}}"
    match = _WORDS.fullmatch(text)
    if match is None:
        return text, NONE
    if match["angle"] is not None:
        return match["angle"], DEGREES
    if match["degrees"] is not None:
        return match["degrees"], read_words(f"degree {without_text_commands(match['scale'])}")
    written = without_text_commands(match["text"] or match["word"])
    if set("⊕⊗") & set(written) or _is_name(match, written.strip()):
        return text, NONE
    return match["number"], read_words(f"{written}^{match['dimension'] or 1}")


def _is_name(match: re.Match[str], written: str) -> bool:
    """Whether what stands behind a number is a factor: ``x``, ``\\mathbf{i}``, ``sin x``."""
    if match["word"] is not None:
        written = written.replace(".", "")
        if "/" in written:
            return not all(len(part) > 2 or is_unit(part) for part in re.split(r"[\s/]+", written))
        first, _, others = written.partition(" ")
        if is_function(written) and is_unit(first):  # 30 min, 30 sec; but 2 sec x
            return bool(others) and are_names(others)
        return is_function(written) or are_names(written)
    is_font = re.match(r"\\math(?:bf|it)", match["text"]) is not None
    return len(written) == 1 and written.isalpha() and (is_font or not is_symbol(written))


def _read(number: str) -> tuple[Fraction, int | None] | None:
    if match := _SCIENTIFIC.fullmatch(number):
        exponent = int(match["e"] or match["power"] or 0)
        if abs(exponent) > MAX_EXPONENT:
            return None
        decimals = match["decimal"]
        value = Fraction(decimals) * Fraction(10) ** exponent
        return _signed(value, match["sign"]), len(decimals.partition(".")[2])
    if match := _TEN.fullmatch(number):
        exponent = int(match["power"])
        if abs(exponent) > MAX_EXPONENT:
            return None
        return _signed(Fraction(10) ** exponent, match["sign"]), 0
    if match := _REPEATING.fullmatch(number):
        head, tail = match["head"], match["tail"]
        value = Fraction(f"{match['whole'] or 0}.{head or 0}")
        value += Fraction(int(tail), (10 ** len(tail) - 1) * 10 ** len(head))
        return _signed(value, match["sign"]), None
    return _read_fraction(number)


def _read_fraction(number: str) -> tuple[Fraction, int | None] | None:
    match = _FRACTION.fullmatch(number)
    if match is None:
        return None
    over = match["left"] or match["over"] or match["digit"]
    under = match["right"] or match["under"] or match["last"]
    divisor = Fraction(under)
    if not divisor:
        return None
    value = int(match["whole"] or 0) + Fraction(over) / divisor
    return _signed(value, match["sign"] or ""), None


def _signed(value: Fraction, sign: str) -> Fraction:
    return -value if sign == "-" else value
