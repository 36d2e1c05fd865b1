"""Graders that compare an answer with the golds of its row by its meaning or its words."""

import re
from collections import Counter
from collections.abc import Sequence

from services.contracts.errors import InvalidRequest
from services.contracts.rewards.graders import MathGrader
from services.rewards.answers.boxes import last_boxes
from services.rewards.answers.writing import without_text_commands
from services.rewards.interface import RewardFailed, Sample, Score
from services.rewards.mathematics.equality import MAX_CHARACTERS, Equality
from services.rewards.mathematics.notation import (
    RELATIONS,
    is_name,
    is_words,
    normal,
    split,
    words_of,
)
from services.rewards.mathematics.numbers import read_quantity
from services.rewards.rules import normalize


class MathMatch:
    """1 when the last box means the same as a gold; see `MathGrader`."""

    def __init__(self, settings: MathGrader, mathematics: Equality) -> None:
        self._settings = settings
        self._mathematics = mathematics

    async def score(self, sample: Sample) -> Score:
        """Compare the last box of the model's last turn; ``extracted`` is its content.

        Several boxes with nothing between them but commas, "and" or "or" are a list.
        """
        if not sample.gold:
            raise RewardFailed("the row has no gold")
        found = last_boxes([sample.answer])
        if not found:
            return Score(0.0)
        box = ", ".join(each.strip() for each in found)
        golds = [expression(gold) for gold in sample.gold]
        is_right = box.strip() in golds or await self._mathematics.any_equal(
            golds, box, ordered=self._settings.ordered
        )
        vote = normal_box(box, ordered=self._settings.ordered)
        return Score(float(is_right), extracted=box.strip(), vote=vote)

    async def are_equal(self, one: str, other: str) -> bool | None:
        """Whether two boxes mean the same, whichever of them is the gold; see
        `ComparesAnswers`."""
        return await self._mathematics.are_same(one, other, ordered=self._settings.ordered)


def normal_box(box: str, *, ordered: bool = False) -> str:
    """A text that boxes share only if they are equal, and often if they are plainly so: words in
    lower case; the values of numbers, with their units; other formulas without needless spaces.

    The parts of a list are sorted, each with its name: ``x = 1, y = 2`` is not ``x = 2, y = 1``.
    Formulas that only computing shows to be equal have several: see `MathMatch.are_equal`.
    """
    if len(box) > MAX_CHARACTERS:
        return box
    if is_words(box):
        return " ".join(words_of(box))
    parts = list(map(_normal_part, split(normal(box), ",").parts))
    return ", ".join(parts if ordered else sorted(parts))


_SIGNS = f",;{RELATIONS}"
_NEEDLESS_SPACE = re.compile(r"(?<![\w.])\s+|\s+(?![\w.])")


def _normal_part(part: str) -> str:
    sides = split(part, "=")
    if len(sides.parts) == 2 and is_name(sides.parts[0]):
        return "=".join(map(_normal_part, sides.parts))
    quantity = read_quantity(part)
    if quantity is None:
        written = without_text_commands(part)
        # Signs in a command for text stay in it, since comparing boxes does not split them there.
        is_split = split(written, _SIGNS).signs != split(part, _SIGNS).signs
        return " ".join(_NEEDLESS_SPACE.sub("", part if is_split else written).split())
    percent = "%" if quantity.is_percent else ""
    return " ".join([f"{quantity.value}{percent}", *sorted(quantity.unit)])


def expression(gold: str) -> str:
    """The expression of a gold: its last box or boxes, or all of it without one."""
    found = last_boxes([gold])
    return (", ".join(found) if found else gold).strip()


class MathGolds:
    """Checks golds of the math grader."""

    def check_gold(self, gold: str) -> None:
        """Raise ``InvalidRequest`` when no answer could ever match this gold."""
        length = len(expression(gold))
        if not 0 < length <= MAX_CHARACTERS:
            what = "is empty" if not length else f"has more than {MAX_CHARACTERS} characters"
            raise InvalidRequest(f"the expression of the gold {what}", param="gold")


class TokenF1:
    """The highest token F1 of the answer and a gold. Rajpurkar et al. 2016, arXiv:1606.05250."""

    async def score(self, sample: Sample) -> Score:
        """Compare the model's last turn, without its reasoning.

        An empty answer is right for an empty gold alone, not for one of which no words are left
        ("A", "%").
        """
        if not sample.gold:
            raise RewardFailed("the row has no gold")
        if not sample.answer.strip():
            return Score(float(any(not gold.strip() for gold in sample.gold)))
        answer = normalize(sample.answer).split()
        return Score(max(token_f1(answer, normalize(gold).split()) for gold in sample.gold))


def token_f1(answer: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of two multisets of words; of two empty ones 1."""
    if not answer or not gold:
        return float(not answer and not gold)
    common = sum((Counter(answer) & Counter(gold)).values())
    return 2 * common / (len(answer) + len(gold))
