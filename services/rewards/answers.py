"""Finding the answer in what a model wrote: the last box, or the last answer tag.

Every search takes linear time, whatever the text.
"""

import re
from collections.abc import Sequence

_BOX = "\\boxed{"
_TOKEN = re.compile(r"\\boxed\{|\\.|[{}]", re.DOTALL)  # a backslash takes what follows it along
_OPEN, _CLOSE = "<answer>", "</answer>"


def last_box(texts: Sequence[str], characters: int | None = None) -> str | None:
    """The content of the last closed \\boxed{...}; null without one.

    Braces inside are balanced, and escaped ones do not count. A box lies within one of the texts
    and, with ``characters``, wholly within that many at their end.
    """
    left = sum(map(len, texts)) if characters is None else characters
    for text in reversed(texts):
        box = _last_box(text[max(0, len(text) - left) :]) if left > 0 else None
        if box is not None:
            return box
        left -= len(text)
    return None


def final_box(texts: Sequence[str], characters: int) -> str | None:
    """The last box of the last ``characters`` if it is closed: an open one behind it counts."""
    tail = "".join(texts)[-characters:]
    start = tail.rfind(_BOX)
    end = _closing_brace(tail, start + len(_BOX)) if start >= 0 else None
    return None if end is None else tail[start + len(_BOX) : end]


def last_answer(texts: Sequence[str]) -> str | None:
    """The content of the last <answer>...</answer> that lies within one text; null without one."""
    for text in reversed(texts):
        end = text.rfind(_CLOSE)
        start = text.rfind(_OPEN, 0, end) if end >= 0 else -1
        if start >= 0:
            return text[start + len(_OPEN) : end]
    return None


def _last_box(text: str) -> str | None:
    """In one pass, with a stack of the open braces; of the closed boxes the last begun counts."""
    begun: list[int | None] = []  # for every open brace, where its box's content begins
    last: tuple[int, int] | None = None
    for token in _TOKEN.finditer(text):
        if token[0] == _BOX:
            begun.append(token.end())
        elif token[0] == "{":
            begun.append(None)
        elif token[0] == "}" and begun:
            start = begun.pop()
            if start is not None and (last is None or start > last[0]):
                last = (start, token.start())
    return None if last is None else text[last[0] : last[1]]


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
