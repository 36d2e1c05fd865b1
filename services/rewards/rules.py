"""Rule-based rewards: ReTool's and Search-R1's, and how they find an answer in a response."""

import re
import string
from collections.abc import Sequence

from services.contracts.rewards import RetoolReward, SearchEmReward
from services.rewards.interface import RewardFailed, Sample, Score
from services.rewards.mathematics.equality import Equality

TAIL_CHARACTERS = 300
STRICT_TAIL_CHARACTERS = 100
MAX_CAPPED = -0.6


class Retool:
    """1 for a correct box at the end of the response; see `RetoolReward`."""

    def __init__(self, settings: RetoolReward, mathematics: Equality | None) -> None:
        self._settings = settings
        self._mathematics = mathematics

    async def score(self, sample: Sample) -> Score:
        """Score the last box of the model's own text."""
        if not sample.gold:
            raise RewardFailed("its row has no gold")
        if await self._is_right(sample):
            return Score(1.0)
        if self._settings.plain:
            return Score(-1.0)
        if self._settings.cap:
            turns = len(sample.texts) + sample.tool_turns
            return Score(min(MAX_CAPPED, -1.0 + max(0, turns - 1) / 20))
        return Score(min(0.0, -1.0 + sample.tool_turns / 10))

    async def _is_right(self, sample: Sample) -> bool:
        if self._settings.strict:
            return final_box(sample.texts, STRICT_TAIL_CHARACTERS) in sample.gold
        box = last_box(sample.texts, TAIL_CHARACTERS)
        if box is None:
            return False
        if box.strip() in {gold.strip() for gold in sample.gold}:
            return True
        if self._mathematics is None:
            return False
        return await self._mathematics.any_equal(sample.gold, box, ordered=self._settings.ordered)


_ARTICLES = frozenset({"a", "an", "the"})
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


class SearchEm:
    """1 for a correct answer, the format score for a wrong one, 0 without an answer."""

    def __init__(self, settings: SearchEmReward) -> None:
        self._format_score = settings.format_score

    async def score(self, sample: Sample) -> Score:
        """Score the last answer tag, or else the last box."""
        if not sample.gold:
            raise RewardFailed("its row has no gold")
        answer = last_answer(sample.texts)
        if answer is None:
            answer = last_box(sample.texts)
        if answer is None:
            return Score(0.0)
        is_right = any(_matches(answer, gold) for gold in sample.gold)
        return Score(1.0 if is_right else self._format_score)


def _matches(answer: str, gold: str) -> bool:
    normalized = normalize(gold)
    if normalized:
        return normalize(answer) == normalized
    # "A" and "%" normalize to nothing but are still answers.
    return answer.strip().lower() == gold.strip().lower()


def normalize(text: str) -> str:
    """SQuAD's normal form: lower case without punctuation and articles, single spaces."""
    words = text.lower().translate(_WITHOUT_PUNCTUATION).split()
    return " ".join(word for word in words if word not in _ARTICLES)


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
        start = text.rfind(_OPEN, 0, max(0, text.rfind(_CLOSE)))
        if start >= 0:
            start += len(_OPEN)
            return text[start : text.index(_CLOSE, start)]
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
