"""Finds the number that an answer states, however it is written.

The last number of the last box with a number counts, else the one behind the first ``####`` with
nothing but a number and its unit (GSM8K's form, which Markdown's headings are not), else the one of
the last sentence that states the answer, else the last one of the text.

How a number is read, in answers and golds alike:

- an optional sign (``+``, ``-``, or a Unicode minus) and an optional currency sign (``$``, ``€``,
  ``£``, ``¥``). A sign directly after a letter, a digit or a closing parenthesis is an operator or
  a hyphen and does not count: ``10-3`` ends with 3;
- digits, in groups of three separated by commas, by LaTeX's or thin spaces, or without any
  (``1,234,567``, ``1{,}234``, ``70\\,000``); ``12,34`` is two numbers. Digits of other scripts and
  full-width ones are read too;
- decimals after a point (``.5``, ``5.``) and an exponent (``1.5e3``, ``10^3``,
  ``1.5 \\times 10^{3}``);
- a fraction of two whole numbers without spaces (``3/4``), or LaTeX's, mixed or not, is its value;
  a zero denominator makes it two numbers;
- a percent sign is ignored: ``45%`` is 45. So is the exponent of a unit: ``5 km^2`` is 5.

Not read: plain spaces or points between thousands, a decimal comma.
"""

import re
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation
from fractions import Fraction

from services.rewards.answers.boxes import boxes
from services.rewards.answers.writing import (
    ascii_marks,
    is_stated,
    plain,
    statements,
    without_text_commands,
)

_NUMBER = re.compile(
    r"""
    (?P<sign> (?<![A-Za-z\d)]) [-+] )?
    [$€£¥]?
    (?:
        (?P<numerator> (?<!/)\d+ ) / (?P<denominator> 0*[1-9]\d* ) (?! \d | [./]\d )
      | (?P<plain>
            (?: \d{1,3} (?: ,\d{3} )+ (?!\d) | \d+ ) (?: \.\d+ )? (?: [eE][-+]?\d+ )?
          | (?<!\d) \.\d+ (?: [eE][-+]?\d+ )?
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
_FRACTION = re.compile(
    r"(?:(?P<whole>\d{1,18})\s*)?\\[cdt]?frac\s*"
    r"(?:\{\s*(?P<sign>-?)(?P<over>\d{1,18}(?:\.\d{1,18})?)\s*\}|(?P<digit>\d))\s*"
    r"(?:\{\s*(?P<under>\d{1,18}(?:\.\d{1,18})?)\s*\}|(?P<last>\d))"
)
_TIMES_TEN = re.compile(
    r"(?<=\d)\s*(?:\\times|\\cdot|[\u00d7*\u00b7])\s*10\s*\^\s*\{?\s*([-+]?\d{1,18})\s*\}?"
)
_TEN = re.compile(r"(?<![\d.,])10\s*\^\s*\{?\s*([-+]?\d{1,4})(?!\d)\s*\}?")
_UNIT = r"(?:mm|cm|dm|km|m|ft|in|yd|mi|s|h)"
_POWER_OF_UNIT = re.compile(rf"(?<=\d)\s*{_UNIT}(?:/{_UNIT})?\s*\^\s*\{{?\s*-?[1-3]\s*\}}?")
CLAUSE_CHARACTERS = 1_000
"""Of the clause that states an answer, more are not read."""
_FOUND = re.compile(r"(?<!#)####(?!#)[ \t]*([^\n]*)")
_ORDINAL = re.compile(r"^[ \t]*#{1,6}[ \t*_]*\d{1,3}[.)]", re.MULTILINE)
_IS_ORDINAL = re.compile(r"[ \t*_]*\d{1,3}[.)][ \t*_]*")
_MARKS = r"[\s*_`~$=\u2248(){}\[\]\\]*+"  # possessive, so that a long text is read in linear time
_WORD = r"[a-z\u00b0\u00b5%/\u00b2\u00b3-]++"
_BEFORE_BARE = re.compile(_MARKS)
_BEHIND_BARE = re.compile(
    rf"{_MARKS}%?(?:\s*+(?:{_WORD}|[A-Z]{{2,4}}|\u00b0?[CF])(?![A-Za-z])){{0,4}}"
    r"(?:\s*+(?:out\s+)?(?:of|/)\s*[$\u20ac]?\d[\d,.]*)?"
    rf"(?:\s*\([^()\n]*\))?{_MARKS}[.,;!]?{_MARKS}#*\s*"
)
_IS_THE_ANSWER = re.compile(
    r"\s*+(?:[a-z\u00b0%/]++\s++){0,3}?(?:is|was)\s+(?:[a-z]+ly\s+|therefore\s+|thus\s+|hence\s+)?"
    r"(?:the|our|my|your)\s+(?:[a-z]+\s+)?answer\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"(?:[^\n.,;(!?]|[.,](?=\d))*?"
    r"(?=$|[\n;(!?]|[.,](?!\d)|\b(?:because|since|which|where)\b)"
)


def stated_number(text: str) -> Number | None:
    """The number that an answer states; None without one.

    A number too large for decimal arithmetic (an exponent of 18 digits) is not read.
    """
    for box in reversed(boxes(text)):
        if found := _last(tidy(box.content)):
            return found
    tidied = tidy(text)
    return _marked(text) or _of_statement(tidied) or _last(tidied)


def integer_of(text: str) -> int | None:
    """The integer that a text consists of, of at most 18 digits."""
    found = _INTEGER.fullmatch(tidy(plain(text)))
    return int(found[0].replace(",", "")) if found else None


_INTEGER = re.compile(r"\s*[+-]?(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})\s*")


def tidy(text: str) -> str:
    """A text with its numbers in ASCII and without LaTeX: ``70\\,000`` is 70000."""
    text = without_text_commands(ascii_marks(text))
    text = (
        _NARROW.sub(",", text.replace("{,}", ","))
        .replace("\\!", "")
        .replace("\\$", "$")
        .replace("\\%", "%")
    )
    text = _GROUP_SPACE.sub("", text)
    text = _FRACTION.sub(_as_fraction, text)
    text = _TEN.sub(r"1e\1", _TIMES_TEN.sub(r"e\1", text))
    return _POWER_OF_UNIT.sub("", text)


def _as_fraction(written: re.Match[str]) -> str:
    over = Fraction(written["over"] or written["digit"])
    under = Fraction(written["under"] or written["last"])
    if not under:
        return written[0]
    value = int(written["whole"] or 0) + over / under
    return f"{written['sign'] or ''}{value.numerator}/{value.denominator}"


def _marked(text: str) -> Number | None:
    """The number of the first ``####`` that is not a heading, as "#### 2. Add tax" is. Numbers with
    a point are ordinals where there are several."""
    has_ordinals = len(_ORDINAL.findall(text)) > 1
    for line in _FOUND.finditer(text):
        if has_ordinals and _IS_ORDINAL.fullmatch(line[1]):
            continue
        written = tidy(line[1])
        number = _NUMBER.search(written)
        if (
            number is not None
            and _BEFORE_BARE.fullmatch(written, 0, number.start())
            and _BEHIND_BARE.fullmatch(written, number.end())
            and (found := _read(number))
        ):
            return found
    return None


def _of_statement(text: str) -> Number | None:
    """The number of the last sentence that states the answer: "the answer is 18", or "18 is the
    answer"."""
    last: Number | None = None
    place = -1
    for links in statements(text):
        ends = [end for end, link in links if link != "="] or [links[0][0]]
        clause = _CLAUSE.match(text, ends[0], ends[0] + CLAUSE_CHARACTERS)
        said = clause[0].strip() if clause else ""
        if not said.startswith("not ") and (found := _first(said.rpartition("=")[2])):
            last, place = found, ends[0]
    for number in _NUMBER.finditer(text):
        behind = _IS_THE_ANSWER.match(text, number.end())
        if behind and number.start() > place and is_stated(text, number.start()):
            last = _read(number) or last
    return last


def _first(text: str) -> Number | None:
    found = _NUMBER.search(text)
    return None if found is None else _read(found)


def _last(text: str) -> Number | None:
    last: re.Match[str] | None = None
    for match in _NUMBER.finditer(text):
        last = match
    return None if last is None else _read(last)


def _read(written: re.Match[str]) -> Number | None:
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
