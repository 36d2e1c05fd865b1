"""Finds the structured prediction in a model's text: reasoning stripped, then JSON."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, NoReturn

from services.metrics.fences import fenced_blocks

REASONING_ENDS = ("</think>", "[/THINK]")
MAX_CLOSINGS = 64
"""Closing brackets tried from the end of a text: each costs one scan back to its opening."""

_TAGGED = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
_OPENER = r"(?i:okay|ok|sure|alright|all\s+right|right|well|hmm+|yes|no|so|now|wait|first)"
"""What a model says before it begins to reason."""
_PAIRS = {"}": "{", "]": "["}


class ExtractionOutcome(StrEnum):
    """The outcome of extracting JSON from a text."""

    PARSED = "parsed"
    NO_JSON = "no_json"
    INVALID_JSON = "invalid_json"


@dataclass(frozen=True, slots=True)
class Extraction:
    """The JSON value of a text; ``value`` is None unless the outcome is ``PARSED``."""

    outcome: ExtractionOutcome
    value: Any = None


def strip_reasoning(text: str, ends: Sequence[str] = REASONING_ENDS) -> str:
    """The text behind the last of ``ends``, up to reasoning that begins there and has no end.

    Reasoning begins with the opening tag of one of ``ends``, ``<think>`` of ``</think>``: at the
    start of a line or of a sentence, or behind a line's first words such as "Okay". A tag that
    stands in quotes, or within a sentence, is only spoken of. A text that was cut off
    within its reasoning has no answer. A chat template may open the reasoning in the prompt, so
    only its end need be in the text.
    """
    text = text[max((at + len(end) for end in ends if (at := text.rfind(end)) >= 0), default=0) :]
    begins = [end.replace("/", "", 1) for end in ends if "/" in end]
    if not begins:
        return text
    tag = f"(?:{'|'.join(map(re.escape, begins))})"
    unended = re.search(
        rf"(?:^[ \t]*+|(?<=[.!?:;)\]*])[ \t]++|(?<=[.!?:;])){tag}(?![`\"'])"
        rf"|^(?P<opener>(?:{_OPENER}\b[ \t,]*+)++){tag}(?=\w|[ \t]*+\n)",
        text,
        re.MULTILINE,
    )
    if unended is None:
        return text
    return text[: unended.start() if unended["opener"] is None else unended.end("opener")]


def extract_json(
    text: str,
    reasoning_ends: Sequence[str] = REASONING_ENDS,
    fits: Callable[[Any], bool] | None = None,
) -> Extraction:
    """Find the JSON value that a model's text states. Never raises.

    After the reasoning, the first of these counts: the last fence marked ``json``, the last fence,
    the last balanced object or array that parses. A fence that does not parse is
    ``INVALID_JSON``, and so are brackets none of which parse. What no JSON file can hold again is
    invalid too: NaN, infinity, numbers that overflow to it, and lone surrogates.

    With ``fits``, the first in this order that fits counts, of all fences and balanced values from
    the last to the first. If none does, the outcome is the same as without it.
    """
    text = strip_reasoning(text, reasoning_ends)
    stated: Extraction | None = None
    for found in _stated(text):
        if fits is None or (found.outcome is ExtractionOutcome.PARSED and fits(found.value)):
            return found
        stated = stated or found
    return stated or Extraction(ExtractionOutcome.NO_JSON)


def extract_all(
    text: str, fits: Callable[[Any], bool], is_whole: Callable[[Any], bool]
) -> Extraction:
    """Find all JSON values of a text that fit, such as calls; ``value`` lists them in its order.

    After the reasoning, the most explicit form that has one counts: ``<tool_call>`` tags (the
    convention of Hermes and Qwen), the last of which may be open, else fences, else balanced
    objects and arrays. A tag beside others whose content does not fit makes the text invalid: that
    call is not left out.

    Outside of tags a value for which ``is_whole`` holds, such as a list of all calls, counts once
    where it is stated again: as a plan, and then as the answer. Other values count as often as they
    are stated.
    """
    text = strip_reasoning(text)
    tagged = [_parse(written) for written in _TAGGED.findall(text)]
    fenced = [_parse(block.content) for block in fenced_blocks(text)]
    for found in (tagged, fenced, list(_balanced(text))[::-1]):
        parsed = [each.value for each in found if each.outcome is ExtractionOutcome.PARSED]
        values = list(filter(fits, parsed))
        if values and found is tagged and len(values) < len(tagged):
            return Extraction(ExtractionOutcome.INVALID_JSON)
        if values and found is not tagged:
            values = list(_without_repetitions(values, is_whole))
        if values:
            return Extraction(ExtractionOutcome.PARSED, values)
    is_none = extract_json(text).outcome is ExtractionOutcome.NO_JSON
    return Extraction(ExtractionOutcome.NO_JSON if is_none else ExtractionOutcome.INVALID_JSON)


def _without_repetitions(values: list[Any], is_whole: Callable[[Any], bool]) -> Iterator[Any]:
    stated: set[str] = set()
    for value in values:
        written = json.dumps(value, sort_keys=True)
        if not (is_whole(value) and written in stated):
            yield value
        stated.add(written)


def has_path(path: str) -> Callable[[Any], bool]:
    """Whether a value has something at a dotted path, for `extract_json`."""

    def fits(value: Any) -> bool:
        try:
            at_path(value, path)
        except LookupError:
            return False
        return True

    return fits


def _stated(text: str) -> Iterator[Extraction]:
    """What a text states as JSON, the most explicit and the last first."""
    blocks = [block for block in fenced_blocks(text) if block.closed]
    marked = [block for block in blocks if block.language == "json"]
    others = [block for block in blocks if block.language != "json"]
    for block in (*reversed(marked), *reversed(others)):
        yield _parse(block.content)
    yield from _balanced(text)


def at_path(value: Any, path: str) -> Any:
    """The value at a dotted path of fields, ``"answer.label"``; a list index is a number.

    The empty path is the value itself. Raises `LookupError` for a path that leads nowhere.
    """
    for step in filter(None, path.split(".")):
        if isinstance(value, list) and step.isdecimal():
            value = value[int(step)]
        elif isinstance(value, dict):
            value = value[step]
        else:
            raise LookupError(step)
    return value


def _balanced(text: str) -> Iterator[Extraction]:
    """The balanced values from the last to the first, then what else there is."""
    outcome = ExtractionOutcome.NO_JSON
    end = len(text)
    for _ in range(MAX_CLOSINGS):
        end = max(text.rfind("}", 0, end), text.rfind("]", 0, end))
        if end < 0:
            break
        begin = _opening(text, end)
        if begin is None:
            continue
        found = _parse(text[begin : end + 1])
        if found.outcome is ExtractionOutcome.PARSED:
            yield found
            end = begin
            continue
        outcome = ExtractionOutcome.INVALID_JSON
    yield Extraction(outcome)


def _opening(text: str, end: int) -> int | None:
    """Where the bracket opens that closes at ``end``, scanning back over JSON strings."""
    expected: list[str] = []
    in_string = False
    for at in range(end, -1, -1):
        character = text[at]
        if character == '"' and not (in_string and _escaped(text, at)):
            in_string = not in_string
        elif in_string:
            continue
        elif character in _PAIRS:
            expected.append(_PAIRS[character])
        elif character in "{[":
            if character != expected.pop():
                return None
            if not expected:
                return at
    return None


def _escaped(text: str, at: int) -> bool:
    backslashes = 0
    while at > backslashes and text[at - backslashes - 1] == "\\":
        backslashes += 1
    return backslashes % 2 == 1


def _parse(text: str) -> Extraction:
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode()  # fails on lone surrogates
    except (ValueError, RecursionError):
        return Extraction(ExtractionOutcome.INVALID_JSON)
    return Extraction(ExtractionOutcome.PARSED, value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if isfinite(number) else _refuse(digits)
