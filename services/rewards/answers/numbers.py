"""Finds the number that an answer states.

The last <answer> with a number counts, else the last number of the last box with one, else the one
behind the first ``####`` whose line is a value (GSM8K's form, which Markdown's headings are not),
else the one of the last sentence that states the answer (see `statements`), else the last one of
the text that is not denied. How numbers are written is told in `numerals`.

What may stand between a link and its value: marks, adverbs, "about", and a name (``x =``); else the
first number of the clause counts. What may follow a value:

- behind a calculation counts what it equals (``3 + 4 = 7``). A calculation without a result, and
  several values (``1 or 2``, ``20-25``), are no number: nothing is read rather than a part of it.
  One value in two forms (``1/2 or 0.5``) is none of several;
- no value goes on in the next line, which may be a list or the next paragraph;
- a value that has to stand alone is followed by nothing but up to three words of its unit, and the
  end of the sentence, a comma, a bracket or a reason;
- so is the value of a ``####``, of which ``of 20`` and another sentence in a bracket or behind a
  comma are no part. An ordinal (``2. Add tax``, ``2) Add tax``) and a sentence that begins with a
  number are headings.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Final

from services.rewards.answers.boxes import boxes, last_answer
from services.rewards.answers.numerals import ARITHMETIC, NUMBER, Number, read, tidy
from services.rewards.answers.statements import (
    Denied,
    Place,
    is_doubted,
    is_negated,
    is_refuted,
    statements,
)
from services.rewards.answers.writing import IN_LINE

CLAUSE_CHARACTERS = 1_000
"""Of the clause that states an answer, more are not read."""
UNCLEAR: Final = "unclear"
"""What a sentence states that has no single value."""

# Possessive, so that a long text is read in linear time.
_MARKS = r"[\s*_`~$=\u2248(){}\[\]\\]*+"
_CLOSING = rf"(?:{IN_LINE}|[*_`~$)}}\]\\])*+"
_LEAD = re.compile(
    rf"(?:{_MARKS}(?:(?:[a-z]+ly|about|around|just|thus|then|hence|equal\s+to|a\s+total\s+of)\b"
    r"|[A-Za-z]\w{0,11}\s*[=\u2248]))*+"
    rf"{_MARKS}",
    re.IGNORECASE,
)
_WORD = r"[a-z\u00b0\u00b5%/-]++"
_BECAUSE = r"\b(?:because|since|as|for|so|when|which|where|if)\b"
_ALONE = re.compile(
    rf"{_CLOSING}%?(?:{IN_LINE}*+{_WORD}){{0,3}}{_CLOSING}(?:\Z|[.,;!(\n]|{_BECAUSE})"
    rf"|{_CLOSING}{_BECAUSE}"
)
_ASKED = re.compile(rf"{_CLOSING}(?:{_WORD}{IN_LINE}*+){{0,3}}\?")
_CALCULATION = re.compile(
    rf"[ \t]*+\*[ \t]*+\d|{_CLOSING}(?:[-+*/\u00d7\u00b7\u00f7^]|\\(?:times|cdot|div)\b"
    rf"|(?:x|plus|minus|times|divided\s+by)\b){IN_LINE}*+[$(\\]*+\d",
    re.IGNORECASE,
)
_OPERATION = re.compile(
    r"\b(?:sum|product|difference|quotient|average|mean)\s+(?:of|between)\b", re.IGNORECASE
)
_OTHER = re.compile(
    rf"(?P<comma>{_CLOSING},)?+{_CLOSING}(?P<word>\b(?:or|and|to|through)\b)?+{IN_LINE}*+\$?"
    r"(?=[-+$\u20ac\u00a3\u00a5]*\d)"
)
_PRECISION = re.compile(
    rf"{IN_LINE}*+(?:decimals?|significant|sig\.?|d\.?\s?p|s\.?\s?f|places?|fig(?:ure)?s?|digits?)\b",
    re.IGNORECASE,
)
_VERB = re.compile(
    rf"(?:{IN_LINE}*+{_WORD}){{0,2}}?{IN_LINE}++"
    r"(?:is|are|was|were|has|have|had|will|would|can|could|remains?|remained|go|goes|went)\b"
)
_LIST_END = re.compile(rf"{_CLOSING}(?:[.;](?!\d)|\Z|\n)")
_RESULT = re.compile(
    r"(?:[^\n.;]|\.(?=\d)){0,80}?(?:\b(?:is|gives?|giving|equals?|equall?ing|makes?|making"
    rf"|yields?|yielding|or|i\.e\.,?)(?!\w)|\u2192|->){IN_LINE}*+",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"(?:[^\n.,;(!?]|[.,](?=\d))*?"
    r"(?=$|[\n;(!?]|[.,](?!\d)|\b(?:because|since|which|where)\b)"
)
_IS_THE_ANSWER = re.compile(
    rf"{IN_LINE}*+(?:[a-z\u00b0%/]++{IN_LINE}++){{0,3}}?(?:is|was)\s+"
    r"(?:[a-z]+ly\s+|therefore\s+|thus\s+|hence\s+)?"
    r"(?:the|our|my|your)\s+(?:(?:final|correct|right|required)\s+)?answer\b"
    r"(?!\s+(?:of|to|for|in)\s+(?:the\s+)?(?:first|second|previous|other|part|step|sub))",
    re.IGNORECASE,
)

_FOUND = re.compile(r"(?<!#)####(?!#)[ \t]*([^\n]*)")
_ORDINAL = re.compile(r"^[ \t]*#{1,6}[ \t*_]*\d{1,3}[.)]", re.MULTILINE)
_IS_ORDINAL = re.compile(r"[ \t*_]*+\d{1,3}(?:\.[ \t*_]*\Z|\))")
_UNIT = (
    rf"(?:{_WORD}|[A-Z]{{2,4}}|\u00b0?[CF]"
    rf"|[A-Z][a-z]++(?={IN_LINE}*+(?:[(,;.*_]|\Z|(?:per|an?|each|and)\b)))"
    r"(?![A-Za-z])"
)
_BEHIND_MARKED = re.compile(
    rf"{_CLOSING}%?(?:\s*+{_UNIT}){{0,4}}(?:\s*+(?:out\s+)?(?:of|/)\s*[$\u20ac]?\d[\d,.]*)?"
    rf"(?:{_CLOSING}[.!]?{_CLOSING}#*\s*|\s*[(,;].*|\s*{_BECAUSE}.*)"
)
_NAME = re.compile(r"[\s*_`$\\(]*[A-Za-z]?\w{0,11}\s*")


def stated_number(text: str) -> Number | None:
    """The number that an answer states; None without one, or where it states several."""
    tagged = last_answer([text])
    if tagged is not None and (inner := stated_number(tagged)):
        return inner
    for box in reversed(boxes(text)):
        if found := _last(tidy(box.content)):
            return found
    if marked := _marked(text):
        return marked
    tidied = tidy(text)
    stated = _in_words(tidied)
    return None if isinstance(stated, str) else stated


def _marked(text: str) -> Number | None:
    """The number of the first ``####`` whose line is a value. Numbers with a bracket are
    ordinals, and those with a point where there are several."""
    has_ordinals = len(_ORDINAL.findall(text)) > 1
    for line in _FOUND.finditer(text):
        ordinal = _IS_ORDINAL.match(line[1])
        if ordinal and (has_ordinals or ordinal[0].endswith(")")):
            continue
        first, *others = tidy(line[1]).split("=")
        is_calculated = _NAME.fullmatch(first) or _leading(first, 0)
        for side in (*reversed(others if is_calculated else ()), first):
            number = _leading(side, 0)
            if number is not None and _BEHIND_MARKED.fullmatch(side, number.end()):
                return read(number)
    return None


def _in_words(text: str) -> Number | str | None:
    """What the last sentence that states the answer says, else the last number."""
    last: Number | str | None = None
    at = -1
    stated = list(statements(text))
    for places in stated:
        held = next((place for place in places if place.holds), None)
        if held is not None and (last := _said(text, held)):
            at = held.at
            break
    for number in NUMBER.finditer(text):
        behind = _IS_THE_ANSWER.match(text, number.end())
        if behind and number.start() > at and not is_doubted(text, number.start()):
            last = read(number) or last
    return last or _last(text, Denied(text, chain(*stated)))


def _said(text: str, place: Place) -> Number | str | None:
    """The value at a place; None for none there."""
    number = _leading(text, place.at)
    if place.is_sought:
        return read(number) if number and _ALONE.match(text, number.end()) else None
    clause = _CLAUSE.match(text, place.at, place.at + CLAUSE_CHARACTERS)
    end = clause.end() if clause else place.at
    if number is None:
        number = NUMBER.search(text, place.at, end)
    if number is None or is_negated(text, number.start()) or _ASKED.match(text, number.end()):
        return None
    for begin in _sides(text, place.at, max(end, number.end())):
        side = NUMBER.search(text, begin, max(end, number.end()))
        if side is None or _CALCULATION.match(text, side.end()):
            continue
        if not _has_others(text, side):
            return read(side)
        if not _OPERATION.search(text, place.at, side.start()):
            return UNCLEAR
    return _result(text, number.end()) or UNCLEAR


def _result(text: str, at: int) -> Number | None:
    """What the calculation equals that goes on at a position."""
    result = _RESULT.match(text, at)
    side = _leading(text, result.end()) if result else None
    if side is None or _CALCULATION.match(text, side.end()) or _has_others(text, side):
        return None
    return read(side)


def _has_others(text: str, number: re.Match[str]) -> bool:
    """Whether a value is one of several: ``1 or 2``, ``1, 2, 3``.

    The same value in another form, what it is rounded to, and a number that begins the next clause
    ("and 2 are left") are none.
    """
    last, is_listed = number, False
    while other := _OTHER.match(text, last.end()):
        if not (other["comma"] or other["word"]):
            break
        found = NUMBER.match(text, other.end())
        if found is None or _PRECISION.match(text, found.end()):
            break
        if other["word"] in (None, "and") and _VERB.match(text, found.end()):
            break
        if not _are_equal(text, number, found):
            if other["word"] or other.end() == last.end() + 1:
                return True
            is_listed = True
        last = found
    return is_listed and _LIST_END.match(text, last.end()) is not None


def _are_equal(text: str, one: re.Match[str], other: re.Match[str]) -> bool:
    """Whether two numbers are one value: the second may be rounded, and one a percentage."""
    first, second = read(one), read(other)
    if first is None or second is None:
        return False
    percent = [text.startswith("%", each.end()) for each in (one, other)]
    value = ARITHMETIC.scaleb(first[1], 2 * (percent[1] - percent[0]))
    exponent = second[1].as_tuple().exponent
    if isinstance(exponent, int) and -ARITHMETIC.prec < exponent < 0:
        value = value.quantize(second[1], context=ARITHMETIC)
    return value == second[1]


def _sides(text: str, begin: int, end: int) -> Iterator[int]:
    """Where the sides of an equation begin, the last one first."""
    at = end
    while (at := text.rfind("=", begin, at)) >= 0:
        yield at + 1
    yield begin


def _leading(text: str, at: int) -> re.Match[str] | None:
    """The number at a position, behind words that may lead it."""
    lead = _LEAD.match(text, at)
    return NUMBER.match(text, lead.end() if lead else at)


def _last(text: str, denied: Denied | None = None) -> Number | None:
    """The last number that is not denied."""
    for number in reversed(list(NUMBER.finditer(text))):
        begin, end = number.span()
        is_denied = denied is not None and denied.covers(begin)
        if not (is_denied or is_negated(text, begin) or is_refuted(text, end)):
            return read(number)
    return None
