"""Finds the score or the label that a judge's answer gives, behind its reasoning.

JSON counts first: of the last object that has the field, or one whose name ends with "score".
Words are read only where no object has it, and outside of objects. A number in words that may mean
something else is none: the limits of a scale, a maximum, the legend of a rubric, one of several
scores of parts, a decimal comma. A percentage is read on scales up to 1 and 100.

Of a text with a broken object, which a judge may quote, what is behind the lines of that object
counts; without anything there, it says nothing.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from services.metrics.extraction import strip_reasoning

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)"
_OBJECT = re.compile(r'\{\s*(?="|\})')
_DECODER = json.JSONDecoder(strict=False)

_SPAN = rf"{_NUMBER}\s*(?:[-\u2010-\u2015\u2212,;]|\.\.+|\b(?:to|and|through)\b)\s*{_NUMBER}"
_BRACKETED_SCALE = re.compile(
    rf"(?<=score)\s*[(\[](?=[^()\[\]\n]*(?:{_SPAN}|\b(?:of|max\w*|scale|points)\b))"
    r"[^()\[\]\n]{0,80}[)\]]",
    re.IGNORECASE,
)
_SCALE = re.compile(
    rf"(?<=score)\s+(?:out\s+of\s+{_NUMBER}|(?:on|in|from|between|using)\b[^\n:=]{{0,40}}?{_SPAN})"
    r"(?:\s+scale)?(?=\s*[:=])",
    re.IGNORECASE,
)
_ALONE = rf"(?={_NUMBER}(?:\s*/\s*\d+)?[ \t]*(?:\n|\Z|\s[-\u2013\u2014]\s))"
# Behind a colon a sentence may follow, unless it is the first of a list.
_FIRST_WORD = rf"(?={_NUMBER}\.[ \t](?![\s\S]{{0,1000}}\n\s*\d+[.)]\s))"
_SCORE = re.compile(
    r"(?<![A-Za-z])(?:score|(?P<overall>overall)(?=[ \t]*[:=]))"
    rf"(?P<gap>[^\w.+\n-]{{0,10}}|[^\w.+\n-]{{0,10}}\n[^\w.+-]{{0,10}}{_ALONE}"
    rf"|[^\w.+\n-]{{0,5}}:[^\w.+\n-]{{0,5}}\n[^\w.+-]{{0,10}}{_FIRST_WORD})"
    rf"(?P<number>{_NUMBER})(?![.,]?\d)(?P<percent>[ \t]*%)?"
    rf"(?:\s*(?:/|out\s+of\b)\s*(?P<most>{_NUMBER})(?!\.?\d))?"
    r"(?!\s*(?:[-\u2010-\u2015\u2212]|\.\.+|to\b)\s*\d)",
    re.IGNORECASE,
)
_LIMIT = re.compile(
    r"\b(?:max(?:imum|imal)?|min(?:imum|imal)?|highest|lowest|full|perfect|possible|best|worst|top"
    r"|passing|threshold|sub)\b",
    re.IGNORECASE,
)
_LEGEND = re.compile(
    r"\s*(?:means|indicates|denotes|represents|corresponds|would)\b", re.IGNORECASE
)
_NAMED_SCORE = re.compile(r"(?:\b|_)[Ss]core\Z|[a-z]Score\Z")
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_BEHIND_BROKEN = re.compile(r"\n(?=[\w*#>{-])")
_BEFORE = re.compile(r"(?P<clause>[^\n.;:!?,()\[\]]{0,60})\Z")
_LAST_WORD = re.compile(r"(?P<word>[^\W\d]+)\W*\Z")
_FINAL = frozenset({"final", "overall", "total", "combined", "resulting"})
_PLAIN = frozenset({"", "the", "my", "this", "so", "hence", "therefore", "thus", "no", "and"})


def judged_number(answer: str, name: str, most: float) -> float | None:
    """The score in a judge's answer to a scale up to ``most``; None if it gives none.

    It is ``name`` or "score" of a JSON object, or its one field that ends so; the number behind the
    word "score", or a text that is nothing but a number. Of several such words, one of the whole
    ("final score") counts before a plain one, that one before "overall: ...", and the last before
    the others; different scores of parts alone give none.
    """
    text = strip_reasoning(answer)
    try:
        objects, words = _objects(text)
    except ValueError:
        return _as_number(_of_broken_object(text, name, _NUMBER))
    for key in (name, "score"):
        for fields in reversed(objects):
            stated = _field(fields, key)
            if isinstance(stated, str) and key != "score":
                return None  # a schema asks for a number; of the score in a free answer, none does
            if stated is not None:
                return _as_number(stated)
    for fields in reversed(objects):
        named = _named_scores(fields)
        if named:
            return named[0] if len(named) == 1 else None
    return _in_words(words, most)


def judged_label(answer: str, labels: Sequence[str]) -> str | None:
    """Which of ``labels`` a judge's answer gives: ``label`` of a JSON object, or the whole text."""
    text = strip_reasoning(answer)
    try:
        objects, words = _objects(text)
    except ValueError:
        objects, words = [], _of_broken_object(text, "label", r'[^"\\\n]*') or ""
    given = (_field(each, "label") for each in objects)
    stated = [each for each in given if each is not None]
    label: Any = stated[-1] if stated else words.strip()
    if not stated and label not in labels:
        label = label.strip("\"'`*.")
    return label if isinstance(label, str) and label in labels else None


def _objects(text: str) -> tuple[list[Mapping[str, Any]], str]:
    """The JSON objects of a text, and the text around them, behind the lines of broken ones.

    Raises `ValueError` for one that is cut off, or broken at the end of the text: what is written
    within it is not what the answer says.
    """
    objects: list[Mapping[str, Any]] = []
    around: list[str] = []
    end = 0
    is_closed = text.rstrip("` \n\t").endswith("}")
    while begin := _OBJECT.search(text, end):
        try:
            value, stop = _DECODER.raw_decode(text, begin.start())
        except RecursionError:
            raise ValueError("nested too deeply") from None
        except json.JSONDecodeError as error:
            behind = _BEHIND_BROKEN.search(text, error.pos)
            is_quoted = error.msg.startswith("Expecting")
            if behind is None or not is_quoted or is_closed:
                raise
            # What is before it may be a draft, of which it is the verdict.
            objects, around, end = [], [], behind.start()
            continue
        objects.append(value)
        around.append(text[end : begin.start()])
        end = stop
    return objects, "\n".join((*around, text[end:]))


def _field(fields: Mapping[str, Any], name: str) -> Any:
    """The value of a field in whatever case, or of the only one in an object within; None without
    one."""
    for key, value in fields.items():
        if key.casefold() == name.casefold():
            return value
    inner = [_field(each, name) for each in fields.values() if isinstance(each, dict)]
    found = [each for each in inner if each is not None]
    return found[0] if len(found) == 1 else None


def _named_scores(fields: Mapping[str, Any]) -> list[float | None]:
    """The different values of fields whose names end with "score": of the whole, else of parts."""
    named = {key: value for key, value in fields.items() if _NAMED_SCORE.search(key)}
    words = {key: set(re.findall(r"[a-z]+", _HUMP.sub("_", key).lower())) for key in named}
    named = {key: value for key, value in named.items() if not _LIMIT.search(" ".join(words[key]))}
    final = [value for key, value in named.items() if words[key] & _FINAL]
    return list(dict.fromkeys(map(_as_number, final or named.values())))


def _of_broken_object(text: str, name: str, pattern: str) -> str | None:
    """A field of an object that is closed, though not valid: of formulas, models forget to escape
    the backslashes."""
    if not text.rstrip("` \n\t").endswith("}"):
        return None
    found = re.findall(rf'"{re.escape(name)}"\s*:\s*"?({pattern})"?\s*[,}}\n]', text)
    return str(found[0]) if len(set(found)) == 1 else None


def _in_words(text: str, most: float) -> float | None:
    text = re.sub(r"[*`]", "", text).replace("_", " ")
    text = _SCALE.sub("", _BRACKETED_SCALE.sub("", text))
    by_rank: list[list[float]] = [[], [], [], []]
    for found in _SCORE.finditer(text):
        rank = _rank(found)
        number = float(found["number"])
        if found["percent"]:
            if most not in (1, 100):
                return None
            number *= most / 100
        if rank is not None and (found["most"] is None or float(found["most"]) == most):
            by_rank[rank].append(number)
    parts, overall, plain, final = by_rank
    if stated := final or plain or overall:
        return _as_number(stated[-1])
    if parts:
        return _as_number(parts[0]) if len(set(parts)) == 1 else None
    return None if _SCORE.search(text) else _as_number(text.strip())


def _rank(found: re.Match[str]) -> int | None:
    """3 for the score of the whole, 2 for one without a name, 1 for what is "overall", 0 for that
    of a part or of a legend; None for a limit."""
    before = _BEFORE.search(found.string[max(0, found.start() - 60) : found.start()])
    clause = before["clause"] if before else ""
    behind = found.string[found.end() : found.end() + 20]
    if _LIMIT.search(clause):
        return None
    is_explained = not re.search("[:=]", found["gap"]) and re.match(r"\s*[:=]", behind)
    if is_explained or _LEGEND.match(behind):
        return 0
    if found["overall"]:
        return 1
    last = _LAST_WORD.search(clause)
    word = last["word"].casefold() if last else ""
    return 3 if word in _FINAL else 2 if word in _PLAIN else 0


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
