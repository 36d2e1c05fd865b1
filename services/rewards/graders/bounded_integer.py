"""Grades the boxed integers of competitions such as AIME, with mathematics as a second opinion."""

from services.contracts.graders import BoxedIntegerGrader
from services.rewards.graders.gold import GoldMatch
from services.rewards.interface import RewardFailed, Sample, Score
from services.rewards.mathematics.equality import Equality
from services.rewards.rules import last_box

SECOND_OPINION = "math-verify"
AGREES = "agrees"


class BoundedInteger:
    """1 when the last box holds the gold as an integer, else 0.

    An integer outside ``bounds`` is no answer: it is unparsable, as a box without an integer is.
    Whether the box means the same as a gold is a measure, and whether that agrees with the score.
    """

    def __init__(self, bounds: tuple[int, int], mathematics: Equality) -> None:
        self._lowest, self._highest = bounds
        self._rule = GoldMatch(BoxedIntegerGrader())
        self._mathematics = mathematics

    async def score(self, sample: Sample) -> Score:
        """Compare the last box of the model's last turn; ``extracted`` is its integer."""
        found = await self._rule.score(sample)
        extracted = found.extracted
        if extracted is not None and not self._lowest <= int(extracted) <= self._highest:
            extracted = None
        value = found.value if extracted is not None else 0.0
        measures = await self._second_opinion(sample, value)
        return Score(value, extracted=extracted, group=SECOND_OPINION, measures=measures)

    async def _second_opinion(self, sample: Sample, value: float) -> dict[str, float]:
        box = last_box([sample.answer])
        try:
            is_equal = box is not None and await self._mathematics.any_equal(sample.gold, box)
        except RewardFailed:
            return {}  # the rule decides, with or without an opinion
        return {"correct": float(is_equal), AGREES: float(is_equal == (value == 1.0))}
