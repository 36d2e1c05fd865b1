"""Finds boxes and answer tags, in linear time.

A box is ``\\boxed{...}`` or ``\\fbox{...}``, with or without a space before its brace, or
``\\boxed`` followed by a space and a number or a word without braces.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

# A backslash takes what follows it along, so that escaped braces do not count.
_TOKEN = re.compile(
    r"(?P<box>\\(?:boxed|fbox)\s{0,8}\{)"
    r"|\\(?:boxed|fbox)[ \t]{1,8}(?P<bare>[-+]?[0-9A-Za-z](?:[0-9A-Za-z.,/]*[0-9A-Za-z])?)"
    r"|\\.|[{}]",
    re.DOTALL,
)
_PUBLISHED_BOX = "\\boxed{"
_OPEN, _CLOSE = "<answer>", "</answer>"
_JOINED = re.compile(
    r"(?:[\s,;$.~]|\\[,;:!() \[\]]|\\q?quad|and|or"
    r"|\\(?:text|textrm|mathrm)\s*\{\s*(?:and|or)\s*\})*"
)


class Box(NamedTuple):
    """The content of a box, and where the box begins and ends in its text."""

    content: str
    begin: int
    end: int


def boxes(text: str) -> list[Box]:
    """The closed boxes of a text by where they begin, in one pass with a stack of open braces."""
    begun: list[tuple[int, int] | None] = []  # for every open brace, where its box and content are
    found: list[Box] = []
    for token in _TOKEN.finditer(text):
        if token["box"] is not None:
            begun.append((token.start(), token.end()))
        elif token["bare"] is not None:
            found.append(Box(token["bare"], token.start(), token.end()))
        elif token[0] == "{":
            begun.append(None)
        elif token[0] == "}" and begun:
            start = begun.pop()
            if start is not None:
                found.append(Box(text[start[1] : token.start()], start[0], token.end()))
    return sorted(found, key=lambda box: box.begin)


def last_box(texts: Sequence[str], characters: int | None = None) -> str | None:
    """The content of the last closed box; null without one.

    Braces inside are balanced, and escaped ones do not count. A box lies within one of the texts
    and, with ``characters``, wholly within that many at their end.
    """
    joined = last_boxes(texts, characters)
    return joined[-1] if joined else None


def last_boxes(texts: Sequence[str], characters: int | None = None) -> list[str]:
    """The last box, as `last_box`, and those before it that belong to it: with nothing between them
    but commas, "and" or "or"."""
    left = sum(map(len, texts)) if characters is None else characters
    for text in reversed(texts):
        tail = text[max(0, len(text) - left) :] if left > 0 else ""
        found = boxes(tail)
        if found:
            first = len(found) - 1
            while first and _are_joined(tail, found[first - 1], found[first]):
                first -= 1
            return [box.content for box in found[first:]]
        left -= len(text)
    return []


def _are_joined(text: str, one: Box, other: Box) -> bool:
    between = text[one.end : other.begin]
    return one.end < other.begin and len(between) < 40 and bool(_JOINED.fullmatch(between))


def final_box(texts: Sequence[str], characters: int) -> str | None:
    """The last ``\\boxed{...}`` of the last ``characters`` if it is closed, as published by ReTool:
    an open one behind it counts."""
    tail = "".join(texts)[-characters:]
    start = tail.rfind(_PUBLISHED_BOX)
    end = _closing_brace(tail, start + len(_PUBLISHED_BOX)) if start >= 0 else None
    return None if end is None else tail[start + len(_PUBLISHED_BOX) : end]


def last_answer(texts: Sequence[str]) -> str | None:
    """The content of the last <answer>...</answer> that lies within one text; null without one."""
    for text in reversed(texts):
        start = text.rfind(_OPEN, 0, max(0, text.rfind(_CLOSE)))
        if start >= 0:
            start += len(_OPEN)
            return text[start : text.index(_CLOSE, start)]
    return None


def _closing_brace(text: str, start: int) -> int | None:
    depth = 1
    for position in range(start, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                return position
    return None
