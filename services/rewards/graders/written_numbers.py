"""Numbers as texts write them.

How the numeric grader reads a number, in answers and golds alike:

- an optional sign (``+``, ``-`` or U+2212) and an optional currency sign (``$``, ``€``, ``£``,
  ``¥``). A sign directly after a letter, a digit or a closing parenthesis is an operator or a
  hyphen and does not count: ``10-3`` ends with 3;
- digits, in groups of three separated by commas or without any (``1,234,567``); ``12,34`` is two
  numbers. Digits of other scripts are read too;
- decimals after a point (``.5``, ``5.``), an exponent (``1.5e3``);
- a fraction of two whole numbers without spaces (``3/4``) is its value; a zero denominator makes
  it two numbers;
- a percent sign is ignored: ``45%`` is 45.

Not read: spaces or points between thousands, a decimal comma, powers written ``10^3``, mixed
fractions, LaTeX's ``\\frac``.
"""

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation

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
# Bounded precision: otherwise 1e999999999 - 1 would have a billion digits.
ARITHMETIC = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])


def last_number(text: str) -> tuple[str, Decimal] | None:
    """The last number of a text, as written and as its value; None without one.

    A number too large for decimal arithmetic (an exponent of 18 digits) is not read.
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
        value = ARITHMETIC.divide(Decimal(number["numerator"]), Decimal(number["denominator"]))
    else:
        value = _exact(number["plain"].replace(",", "").replace("\u2212", "-"))
    return value.copy_negate() if number["sign"] in ("-", "\u2212") else value


def _exact(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:  # the exponent is beyond what decimal arithmetic holds
        return Decimal("NaN")
