"""How a number is written, in answers and golds alike:

- an optional sign (``+``, ``-``, or a Unicode minus) and an optional currency sign (``$``, ``€``,
  ``£``, ``¥``). A sign directly after a letter, a digit or a closing parenthesis is an operator or
  a hyphen and does not count: ``10-3`` ends with 3;
- digits, in groups of three separated by commas, by LaTeX's or thin spaces, or without any
  (``1,234,567``, ``1{,}234``, ``70\\,000``); ``12,34`` is two numbers. Digits of other scripts and
  full-width ones are read too;
- decimals after a point (``.5``, ``5.``) and an exponent (``1.5e3``, ``10^3``,
  ``1.5 \\times 10^{3}``, also with raised digits);
- a power of whole numbers is its value: ``2^8`` and ``2⁸`` are 256;
- a fraction of two whole numbers without spaces (``3/4``), Unicode's (``¾``) or LaTeX's, mixed or
  not (``3 1/2``, ``3 and 1/2``, ``3½``), is its value; a zero denominator makes it two numbers;
- ``thousand``, ``million``, ``billion`` and ``trillion`` multiply: ``$5 million`` is 5,000,000;
- two units of one kind are one value in the larger: ``2 hours 30 minutes`` is 2.5, and
  ``5 feet 6 inches`` is 5.5, ``$42 and 50 cents`` 42.5;
- a time of two digits behind the colon is its hours (``7:30`` is 7.5), another ratio its quotient
  (``3:1`` is 3);
- a percent sign is ignored: ``45%`` is 45.

No numbers are the exponents of units and names (``5 km^2``, ``5 km²``) and digits within their
words (``5 m2``, ``CO2``).

No number goes on in the next line. Not read: plain spaces or points between thousands, a
decimal comma.
"""

import re
import unicodedata
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from typing import Final

from services.rewards.answers.writing import IN_LINE, ascii_marks, plain, without_text_commands

NUMBER: Final = re.compile(
    r"""
    (?P<sign> (?<![A-Za-z\d)]) [-+] )?
    [$€£¥]?
    (?:
        (?P<numerator> (?<!/)\d+ ) / (?P<denominator> 0*[1-9]\d* ) (?! \d | [./]\d )
      | (?P<plain>
            (?: \d{1,3} (?: ,\d{3} )+ (?!\d) | \d+ ) (?: \.\d+ )? (?: [eE][-+]?\d+ )?
          | (?<![\dA-Za-z]) \.\d+ (?: [eE][-+]?\d+ )?
        )
    )
    """,
    re.VERBOSE,
)
# Bounded precision: otherwise 1e999999999 - 1 would have a billion digits.
ARITHMETIC = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])

Number = tuple[str, Decimal]
"""A number as it is written, in ASCII, and its value."""

_THIN = "\u2009\u202f\u00a0\u2006\u2008"
_NARROW = re.compile(r"(?<=\d),\\!\s{0,3}(?=\d)")
_GROUP_SPACE = re.compile(rf"(?<=\d)(?:\\[,;: ]|~|[{_THIN}])(?=\d{{3}}(?!\d))")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_RAISED = re.compile(r"(?P<base>\d?)(?P<power>[⁺⁻]?[⁰¹²³⁴-⁹]{1,18})")
_SLASH = "\u2044"
_VULGAR = re.compile(r"(?P<whole>\d?)(?P<part>[¼-¾⅐-⅞])")
_MIXED = re.compile(
    r"(?<![\d.,/^A-Za-z])(?:(?<!\bbetween )(?P<joined>[1-9]\d{0,17})[ \t]+and|(?P<whole>\d{1,18}))"
    r"[ \t]+(?P<over>\d{1,18})/(?P<under>\d{1,18})(?![\d/]|\.\d)"
)
_FRACTION = re.compile(
    rf"(?:(?P<whole>\d{{1,18}}){IN_LINE}*+)?\\[cdt]?frac\s*+"
    r"(?:\{\s*(?P<sign>-?)(?P<over>\d{1,18}(?:\.\d{1,18})?)\s*\}|(?P<digit>\d))\s*+"
    r"(?:\{\s*(?P<under>\d{1,18}(?:\.\d{1,18})?)\s*\}|(?P<last>\d))"
)
_TO_THE = rf"{IN_LINE}*+\^{IN_LINE}*+"
_TIMES_TEN = re.compile(
    rf"(?<=\d){IN_LINE}*+(?:\\times|\\cdot|[\u00d7*\u00b7xX]){IN_LINE}*+10{_TO_THE}"
    rf"(?:\{{{IN_LINE}*+)?([-+]?\d{{1,18}})(?:{IN_LINE}*+\}})?"
)
_TEN = re.compile(
    rf"(?<![\d.,])10{_TO_THE}(?:\{{{IN_LINE}*+)?([-+]?\d{{1,4}})(?!\d)(?:{IN_LINE}*+\}})?"
)
_POWER = re.compile(
    rf"(?<![A-Za-z\d_.,^)}}\]])(\d{{1,18}}){_TO_THE}"
    r"(?:\{\s*([-+]?\d{1,3})\s*\}|([-+]?\d{1,3})(?!\d))"
)
MAX_DIGITS = 60
"""Of the value of a power."""
_POWER_OF_NAME = re.compile(rf"(?<=[A-Za-z]){_TO_THE}(?:\{{\s*+[-+]?\d++\s*+\}}|[-+]?\d+)")
_UNIT = r"(?:mm|cm|dm|km|m|ft|in|yd|mi|s|h)"
_CURRENCIES = (
    "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP"
    " BYN BZD CAD CDF CHF CLP CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP"
    " GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR"
    " KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK"
    " MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR"
    " SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS"
    " UAH UGX USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG RMB US RM Rs R"
)
"""The codes of ISO 4217, and what is written in their place."""
_DIGIT_OF_WORD = re.compile(
    rf"(?<![A-Za-z\\])(?!(?<=\d)[eExX]\d|(?:{_CURRENCIES.replace(' ', '|')})\d)"
    rf"({_UNIT}|[A-Z][A-Za-z]{{0,3}})\d{{1,2}}(?![\d.,]*\d)"
)
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_SCALED = re.compile(
    r"(?<![A-Za-z\d.,/])(?P<number>\d[\d,]*+(?:\.\d+)?|\.\d+)(?:/(?P<under>\d+))?"
    rf"{IN_LINE}*+(?P<scale>{'|'.join(_SCALES)})s?\b(?!-)",
    re.IGNORECASE,
)
_PARTS = (
    (r"minutes?|mins?", r"seconds?|secs?", 60),
    (r"hours?|hrs?|h", r"minutes?|mins?", 60),
    (r"days?", r"hours?|hrs?|h", 24),
    (r"weeks?", r"days?", 7),
    (r"years?", r"months?", 12),
    (r"feet|foot|ft", r"inch(?:es)?", 12),
    (r"pounds?|lbs?", r"ounces?|oz", 16),
    (r"dollars?|euros?", r"cents?", 100),
    (r"met(?:er|re)s?|m", r"centimet(?:er|re)s?|cm", 100),
    (r"kilomet(?:er|re)s?|km", r"met(?:er|re)s?|m", 1000),
    (r"kilograms?|kg", r"grams?|g", 1000),
)
"""A unit, a part of it, and how many parts it has; the smallest first."""
_NEXT = rf",?{IN_LINE}*+(?:and{IN_LINE}++)?"
_COMPOUND = tuple(
    (
        re.compile(
            rf"(?<![\d.,/A-Za-z]){whole}\b{_NEXT}"
            rf"(?P<over>\d{{1,18}}(?:\.\d{{1,18}})?)(?:/(?P<under>[1-9]\d{{0,17}}))?"
            rf"{IN_LINE}*+(?:{part})\b(?!\s+(?:an?|each|every|per)\b|/)",
            re.IGNORECASE,
        ),
        parts,
    )
    for whole, part, parts in (
        *(
            (rf"(?P<whole>\d{{1,18}})(?P<unit>{IN_LINE}*+(?:{unit}))", part, parts)
            for unit, part, parts in _PARTS
        ),
        (r"(?<=[$€£])(?P<whole>\d{1,18})(?P<unit>)", r"cents?|pence", 100),
    )
)
_OF_SEVERAL_UNITS = re.compile(
    rf"\d(?:{IN_LINE}*+(?:{'|'.join(unit for unit, _, _ in _PARTS)})\b|(?={IN_LINE}*+and\b))"
    rf"{_NEXT}\d",
    re.IGNORECASE,
)
_TIME = re.compile(r"(?<![\d.,:/])(\d{1,18}):(\d{1,18})(?![\d:/]|[.,]\d)")
_INTEGER = re.compile(r"\s*[+-]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})\s*")


def tidy(text: str) -> str:
    """A text with its numbers in ASCII, each as ``NUMBER`` reads it: ``70\\,000`` is 70000, and
    ``2 hours 30 minutes`` 5/2 hours."""
    text = ascii_marks(_VULGAR.sub(_as_part, _RAISED.sub(_as_power, text)).replace(_SLASH, "/"))
    text = (
        _NARROW.sub(",", without_text_commands(text).replace("{,}", ","))
        .replace("\\!", "")
        .replace("\\$", "$")
        .replace("\\%", "%")
    )
    text = _GROUP_SPACE.sub("", text)
    text = _MIXED.sub(_as_fraction, _FRACTION.sub(_as_latex_fraction, text))
    if "^" in text:
        text = _TEN.sub(r"1e\1", _TIMES_TEN.sub(r"e\1", text))
        text = _POWER_OF_NAME.sub("", _POWER.sub(_as_value, text))
    text = _TIME.sub(_as_hours, _DIGIT_OF_WORD.sub(r"\1", text))
    if _OF_SEVERAL_UNITS.search(text):
        for pattern, parts in _COMPOUND:
            text = pattern.sub(partial(_in_larger_unit, parts=parts), text)
    return _SCALED.sub(_as_scaled, text)


def has_number(text: str) -> bool:
    """Whether a text has a number that can be read."""
    return any(read(number) for number in NUMBER.finditer(tidy(text)))


def integer_of(text: str) -> int | None:
    """The integer that a text consists of, of at most 18 digits."""
    found = _INTEGER.fullmatch(tidy(plain(text)))
    return int(found[0].replace(",", "")) if found else None


def read(written: re.Match[str]) -> Number | None:
    """The number that `NUMBER` found; None for one too large for decimal arithmetic, which has an
    exponent of 18 digits."""
    value = _value(written)
    return (written.group(), value) if value.is_finite() else None


def _value(number: re.Match[str]) -> Decimal:
    if number["plain"] is None:
        value = ARITHMETIC.divide(Decimal(number["numerator"]), Decimal(number["denominator"]))
    else:
        value = _exact(number["plain"].replace(",", ""))
    return value.copy_negate() if number["sign"] == "-" else value


def _exact(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except InvalidOperation:  # the exponent is beyond what decimal arithmetic holds
        return Decimal("NaN")


def _as_power(raised: re.Match[str]) -> str:
    """Raised digits behind a digit as ``^{...}``; those of units and names are left out."""
    power = raised["power"].translate(_SUPERSCRIPTS)
    return f"{raised['base']}^{{{power}}}" if raised["base"] else ""


def _as_part(written: re.Match[str]) -> str:
    """``3½`` as ``3 1/2``, and ``½`` as ``1/2``."""
    part = unicodedata.normalize("NFKC", written["part"])
    return f"{written['whole']} {part}" if written["whole"] else part


def _as_value(written: re.Match[str]) -> str:
    base, power = written[1], int(written[2] or written[3])
    if len(base) * abs(power) > MAX_DIGITS or (power < 0 and not int(base)):
        return written[0]
    value = int(base) ** abs(power)
    return str(value) if power >= 0 else f"1/{value}"


def _as_latex_fraction(written: re.Match[str]) -> str:
    over = Fraction(written["over"] or written["digit"])
    under = Fraction(written["under"] or written["last"])
    if not under:
        return written[0]
    return f"{written['sign'] or ''}{_ratio(int(written['whole'] or 0) + over / under)}"


def _as_fraction(written: re.Match[str]) -> str:
    over, under = int(written["over"]), int(written["under"])
    if over >= under:
        return written[0]
    return _ratio(int(written["joined"] or written["whole"]) + Fraction(over, under))


def _as_hours(written: re.Match[str]) -> str:
    first, second = map(int, written.groups())
    if len(written[2]) == 2 and second < 60:
        return _ratio(first + Fraction(second, 60))
    return _ratio(Fraction(first, second)) if second else written[0]


def _in_larger_unit(written: re.Match[str], parts: int) -> str:
    part = Fraction(written["over"]) / int(written["under"] or 1)
    if part >= parts:
        return written[0]
    value = int(written["whole"]) + part / parts
    return f"{_ratio(value)}{written['unit']}"


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _as_scaled(written: re.Match[str]) -> str:
    zeros = _SCALES[written["scale"].lower()]
    if written["under"] is None:
        return f"{written['number']}e{zeros}"
    over = written["number"].replace(",", "")
    return f"{over}{'0' * zeros}/{written['under']}" if over.isdecimal() else written[0]
