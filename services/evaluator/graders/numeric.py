"""The numeric grader: the last number of the answer equals the gold within tolerances.

How a number is read, in answers and golds alike:

- an optional sign (``+``, ``-`` or U+2212) and an optional currency sign (``$``, ``€``, ``£``,
  ``¥``). A sign right behind a letter, a digit or a closing parenthesis joins or subtracts and does
  not count: ``10-3`` ends with 3;
- digits, in groups of three between commas or without any (``1,234,567``); ``12,34`` is two
  numbers. Digits of other scripts are read too;
- decimals behind a point (``.5``, ``5.``), an exponent (``1.5e3``);
- a fraction of two whole numbers without spaces (``3/4``) is its value; a zero below the line makes
  it two numbers;
- a percent sign is not read: ``45%`` is 45.

Not read: spaces or points between thousands, a decimal comma, powers written ``10^3``, mixed
fractions, LaTeX's ``\\frac``.
"""

import re
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation

from services.contracts.errors import InvalidRequest
from services.evaluator.graders.grader import Verdict

_NUMBER = re.compile(
    r"""
    (?P<sign> (?<![A-Za-z\d)]) [-+\u2212] )?
    [$€£¥]?
    (?:
        (?P<numerator> (?<!/)\d+ ) / (?P<denominator> 0*[1-9]\d* ) (?! \d | [./]\d )
      | (?P<plain>
            (?: \d{1,3} (?: ,\d{3} )+ (?!\d) | \d+ ) (?: \.\d+ )? (?: [eE][-+\u2212]?\d+ )?
          | (?<!\d) \.\d+ (?: [eE][-+\u2212]?\d+ )?
        )
    )
    """,
    re.VERBOSE,
)
# Infinite precision is not wanted: with it, 1e999999999 - 1 would have a billion digits.
_ARITHMETIC = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


class NumericMatch:
    """Right when ``|number - gold| <= max(absolute, relative * |gold|)``, in decimal arithmetic."""

    def __init__(self, *, absolute_tolerance: float, relative_tolerance: float) -> None:
        # Through their shortest text: 0.01 means one hundredth, not its neighbour in binary.
        self._absolute = Decimal(str(absolute_tolerance))
        self._relative = Decimal(str(relative_tolerance))

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` when the gold holds no number."""
        if last_number(gold) is None:
            raise InvalidRequest(f"the gold {gold[:80]!r} holds no number", param="gold")

    def grade(self, answer: str, golds: Sequence[str]) -> Verdict:
        """Judge the last number of the answer; ``extracted`` is the number as it was written."""
        number = last_number(answer)
        if number is None:
            return Verdict(correct=False, extracted=None)
        written, value = number
        return Verdict(any(self._equal(value, gold) for gold in golds), written)

    def _equal(self, value: Decimal, gold: str) -> bool:
        number = last_number(gold)
        if number is None:
            return False
        expected = number[1]
        if value == expected:
            return True
        difference = _ARITHMETIC.subtract(value, expected).copy_abs()
        relative = _ARITHMETIC.multiply(self._relative, expected.copy_abs())
        return difference <= max(self._absolute, relative)


def last_number(text: str) -> tuple[str, Decimal] | None:
    """The last number of a text, as it was written and as its value; None without one.

    A number too large for decimal arithmetic (an exponent of 18 digits) is no number.
    """
    last: re.Match[str] | None = None
    for match in _NUMBER.finditer(text):
        last = match
    if last is None:
        return None
    value = _value(last)
    return (last.group(), value) if value.is_finite() else None


def _value(number: re.Match[str]) -> Decimal:
    if number["plain"] is None:
        value = _ARITHMETIC.divide(Decimal(number["numerator"]), Decimal(number["denominator"]))
    else:
        value = _exact(number["plain"].replace(",", "").replace("\u2212", "-"))
    return value.copy_negate() if number["sign"] in ("-", "\u2212") else value


def _exact(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:  # the exponent is beyond what decimal arithmetic holds
        return Decimal("NaN")
