"""Finds the letter of the option that an answer names."""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final

from services.metrics.extraction import ExtractionOutcome, extract_json
from services.rewards.answers.boxes import boxes, last_answer
from services.rewards.answers.statements import BE, Denied, Place, is_doubted, statements
from services.rewards.answers.writing import IN_LINE, plain

MAX_CHARACTERS = 100_000
"""Of a longer answer, only the end is read."""
LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_KEYS = ("answer", "final_answer", "correct_answer", "choice", "option", "letter")

_RIGHT = r"(?:correct|right|best|true|most\s+(?:accurate|likely|appropriate))"
_RIGHT_ONE = re.compile(
    rf"\b{_RIGHT}\s+(?:answer|option|choice|one|letter|response|statement)\b"
    rf"[^\n.:;=!?]{{0,40}}?(?:\b{BE}\b|[:=])",
    re.IGNORECASE,
)
_IS_RIGHT = re.compile(
    r"(?<![A-Za-z])(?:(?P<noun>[Oo]ption|[Cc]hoice|[Aa]nswer|[Ll]etter|[Ss]tatement)\s+)?"
    r"[(\[]?(?P<letter>[A-Z])(?:[)\].:][^\n.]{0,80}?)?[)\]]?\s+"
    r"(?:is|must\s+be|would\s+be|should\s+be)\s+(?:[a-z]+ly\s+)?(?:the\s+|therefore\s+|indeed\s+)*"
    rf"(?:{_RIGHT}|(?:final\s+)?answer)\b(?![^.;\n]{{0,40}}\b(?:only\s+(?:if|for|when|in)|unless)\b)"
)
_SUBJECT = re.compile(
    # Where the subject of a clause may begin; "Vitamin C", "Group B" and "nor B" are none.
    r"(?:\A|[\n.,;:!?(\[)]|\b(?:so|thus|therefore|hence|consequently|that|because|since|as|and|but"
    r"|then|while|only|indeed|clearly|think|believe|say|conclude|if|why|whether)\b)[\s(\[>-]*\Z",
    re.IGNORECASE,
)
_CHOSEN = re.compile(
    r"\b(?:choose|chose|pick|select|going\s+with|go\s+with|opt\s+for)\b|[选選]"
    r"|\b(?i:so|therefore|thus|hence)\b,?\s+(?:it|this|that)\s+(?:must|has\s+to|can\s+only)\s+be\b"
)
_OPTION = re.compile(r"\b(?:option|choice)\b", re.IGNORECASE)
_FILLER = re.compile(
    r"(?:[\s:=>-]|\b(?:the|option|choice|letter|answer|clearly|therefore|thus|simply|likely|most"
    r"|probably|definitely|indeed|und)\b|选项|選項|选|選)*",
    re.IGNORECASE,
)
_JOIN = (
    rf"{IN_LINE}*+(?:,{IN_LINE}*+(?:and\s+|or\s+)?"
    r"|[/&;+]|\b(?:and|or|und|oder|et|ou|y|o)\b|[和或及])"
    rf"{IN_LINE}*+"
)
_WHY = r"because|since|as|which|due|given|weil|and|or|und|oder|et|ou|y|o"
_END = (
    rf"(?={IN_LINE}*+(?:[)\]}}.,;:!?/&|]|$|\n|\(|[和或及])"
    rf"|{IN_LINE}++(?:[-\u2013\u2014]|(?:{_WHY})\b))"
)
_UPPER = rf"(?:[(\[{{]\s*[A-Z]\s*[)\]}}]|[A-Z]{_END}[)\]}}]?)"
_LOWER = rf"(?:[(\[{{]\s*[a-z]\s*[)\]}}]|[a-z](?={IN_LINE}*+(?:[)\]}}.,;:!?]|$|\n))[)\]}}]?)"
_NAMED = tuple(re.compile(rf"{one}(?:{_JOIN}{one})*") for one in (_UPPER, _LOWER))
_LETTER = re.compile(r"(?<![A-Za-z])[A-Za-z](?![A-Za-z])")
_ALONE = re.compile(r"\W*([A-Za-z])\W*")
_LEADING = re.compile(
    rf"[\s(\[]*+([A-Z])(?:{IN_LINE}*+[)\].:]|{IN_LINE}++[-\u2013\u2014]\s"
    rf"|,{IN_LINE}*+(?:because|since|as|which)\b)"
)
_MARK = r"[(\[]?([A-Z])[)\].:](?=\s)"
_MARKED_IN_LINE = re.compile(rf"(?:\A|[.;:!?]\s)\s*{_MARK}")
_MARKED_LINE = re.compile(rf"^{IN_LINE}*+{_MARK}", re.MULTILINE)
_IN_BRACKETS = re.compile(r"[(\[]\s*([A-Z])\s*[)\]]")
_AT_END = re.compile(
    rf"[^\n.;:!?]{{0,120}}?(?:[(\[]\s*(?P<inner>[A-Z])\s*[)\]]"
    rf"|,{IN_LINE}*+(?:(?:which|that)\s+is\s+)?(?:(?:option|choice|letter)\s+)?"
    rf"\(?(?P<outer>[A-Z])\)?){_END}"
)
_UNTIL_DENIED = re.compile(r"(?:(?!\b(?:not|rather|instead|but)\b)[^\n.;!?])*")
_ASKED = re.compile(rf"\W*[A-Za-z][)\]]?{IN_LINE}*+\?")
_IS_ALONE = re.compile(
    rf"\W*[A-Za-z](?:[^\w\n])*?(?:[.!\n]|\Z|,?{IN_LINE}*+(?:because|since|as)\b)"
)

SEVERAL: Final = "several"


def option_of(answer: str, letters: str) -> str | None:
    """The letter that an answer names; None if it names none, or several.

    What counts is the last <answer>, else the last box that names an option, the answer in JSON,
    the last sentence that states the answer (see `statements`), the only option that is called
    right or chosen, or the letter that the answer consists of, begins with or ends with. None of
    these is read where it is denied or supposed. A letter within prose, such as the article "A", is
    never read: behind a letter comes a bracket, a mark, the end of the line, another letter, or a
    reason. It stands directly behind the link, or in brackets or behind a comma at the end of the
    sentence.
    """
    answer = answer[-MAX_CHARACTERS:]
    for named in _readings(answer, letters):
        if named is not None:
            return None if named == SEVERAL else named
    return None


def _readings(answer: str, letters: str) -> Iterator[str | None]:
    tagged = last_answer([answer])
    if tagged is not None:
        yield _named(plain(tagged), letters)
    for box in reversed(boxes(answer)):
        yield _named(plain(box.content), letters)
    if "{" in answer:
        yield _in_json(answer, letters)
    text = plain(answer)
    stated = list(statements(text))
    yield next(_linked(text, stated, letters), None)
    denied = Denied(text, chain(*stated))
    right = _after(_RIGHT_ONE, text, letters, denied)
    yield _only([*right, *_called_right(text, letters, denied)])
    yield _last(_after(_CHOSEN, text, letters, denied))
    yield _only(_after(_OPTION, text, letters, denied))
    yield _whole(text, letters)


def _named(text: str, letters: str) -> str | None:
    """The letter or letters at the beginning of a text, behind words like "option"."""
    filler = _FILLER.match(text)
    text = text[filler.end() :] if filler else text
    for pattern in _NAMED:
        found = pattern.match(text)
        if found is not None:
            named = {letter.upper() for letter in _LETTER.findall(found[0])}
            if len(named) > 1:
                return SEVERAL
            letter = named.pop()
            return letter if letter in letters else None
    return None


def _after(pattern: re.Pattern[str], text: str, letters: str, denied: Denied) -> Iterator[str]:
    """The letters behind a pattern, where nothing denies it."""
    for found in pattern.finditer(text):
        if denied.covers(found.start()) or is_doubted(text, found.start()):
            continue
        named = _named(text[found.end() : found.end() + 200], letters)
        if named is not None:
            yield named


def _linked(text: str, stated: Iterable[list[Place]], letters: str) -> Iterator[str]:
    """What each sentence that states the answer names, the last first."""
    for places in stated:
        named = (_at(text, place, letters) for place in places if place.holds)
        first = next((each for each in named if each is not None), None)
        if first is not None:
            yield first


def _at(text: str, place: Place, letters: str) -> str | None:
    """The letter at a place of a statement; None for none there."""
    behind = text[place.at : place.at + 200]
    if _ASKED.match(behind):
        return None
    if place.is_sought and not _IS_ALONE.match(_FILLER.sub("", behind, count=1)):
        return None
    named = _named(behind, letters)
    if named is not None:
        return named
    until = _UNTIL_DENIED.match(behind)
    ending = _AT_END.match(behind, 0, until.end() if until else 0)
    if ending is None:
        return None
    letter = ending["inner"] or ending["outer"]
    if {*_IN_BRACKETS.findall(behind, 0, until.end() if until else 0)} - {letter}:
        return SEVERAL
    return letter if letter in letters else None


def _last(named: Iterator[str]) -> str | None:
    last: str | None = None
    for last in named:  # noqa: B007 - its last value is used
        pass
    return last


def _called_right(text: str, letters: str, denied: Denied) -> Iterator[str]:
    for found in _IS_RIGHT.finditer(text):
        before = text[max(0, found.start() - 60) : found.start()]
        is_subject = found["noun"] is not None or _SUBJECT.search(before)
        is_denied = denied.covers(found.start()) or is_doubted(text, found.start())
        if is_subject and found["letter"] in letters and not is_denied:
            yield found["letter"]


def _only(named: Iterable[str]) -> str | None:
    different = set(named)
    if len(different) > 1:
        return SEVERAL
    return different.pop() if different else None


def _in_json(answer: str, letters: str) -> str | None:
    found = extract_json(answer, fits=lambda value: _stated(value) is not None)
    stated = _stated(found.value) if found.outcome is ExtractionOutcome.PARSED else None
    if isinstance(stated, list):
        stated = ", ".join(map(str, stated[:26]))
    return _named(plain(stated), letters) if isinstance(stated, str) else None


def _stated(value: Any) -> Any:
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in _KEYS if key in value), None)


def _whole(text: str, letters: str) -> str | None:
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return None
    alone = [
        found[1].upper() for line in {lines[0], lines[-1]} if (found := _ALONE.fullmatch(line))
    ]
    if alone:
        return _only([letter for letter in alone if letter in letters])
    leading = _LEADING.match(text)
    if leading is None:
        return None
    if {*_MARKED_IN_LINE.findall(lines[0]), *_MARKED_LINE.findall(text)} - {leading[1]}:
        return None
    if leading[1] == "I" and not text.strip().startswith("("):
        return None  # a Roman number, as of a heading, or the pronoun
    return leading[1] if leading[1] in letters else None
