"""Grades the boxed integers of competitions such as AIME, with second opinions besides the rule."""

from services.contracts.rewards.graders import BoxedIntegerGrader
from services.contracts.rewards.openai_graders import GraderMessage, JudgeModel, LabelModelGrader
from services.rewards.answers.boxes import last_box
from services.rewards.graders.gold import GoldMatch
from services.rewards.interface import Component, RewardFailed, Sample, Score
from services.rewards.mathematics.equality import Equality

SECOND_OPINION = "second_opinion"
AGREES = "agrees"
_ASKED = """Question:
{{ item.question }}

Right answer: {{ item.gold }}

Answer of a model:
{{ sample.output_text }}

Is the final answer of the model the right one?"""


def judge_of_wrong(model: JudgeModel) -> LabelModelGrader:
    """The judge's prompt about an answer that the rule rejected."""
    return LabelModelGrader(
        name="judge",
        model=model,
        input=[GraderMessage(role="user", content=_ASKED)],
        labels=["right", "wrong"],
        passing_labels=["right"],
    )


class BoundedInteger:
    """1 when the last box holds the gold as an integer, else 0.

    An integer outside ``bounds`` cannot be the answer: it is unparsable, as a box without one is.
    Measures are whether the box means the same as a gold (``math_verify``) and whether that agrees
    with the score, and the score with a ``judge``, who sees only what the rule called wrong.
    """

    def __init__(
        self, bounds: tuple[int, int], mathematics: Equality, judge: Component | None = None
    ) -> None:
        self._lowest, self._highest = bounds
        self._rule = GoldMatch(BoxedIntegerGrader())
        self._mathematics = mathematics
        self._judge = judge

    async def score(self, sample: Sample) -> Score:
        """Compare the last box of the model's last turn; ``extracted`` is its integer."""
        found = await self._rule.score(sample)
        extracted = found.extracted
        if extracted is not None and not self._lowest <= int(extracted) <= self._highest:
            extracted = None
        value = found.value if extracted is not None else 0.0
        measures = await self._second_opinion(sample, value) | await self._judged(sample, value)
        return Score(value, extracted=extracted, group=SECOND_OPINION, measures=measures)

    async def _second_opinion(self, sample: Sample, value: float) -> dict[str, float]:
        box = last_box([sample.answer])
        try:
            is_equal = box is not None and await self._mathematics.any_equal(sample.gold, box)
        except RewardFailed:
            return {}  # the rule decides, with or without an opinion
        return {"math_verify": float(is_equal), AGREES: float(is_equal == (value == 1.0))}

    async def _judged(self, sample: Sample, value: float) -> dict[str, float]:
        """The score with the judge, never lower; none if the judge fails."""
        if self._judge is None:
            return {}
        if value == 1.0:
            return {"with_judge": value, "judge_failed": 0.0}
        try:
            judged = await self._judge.score(sample)
        except RewardFailed:
            return {"judge_failed": 1.0}
        return {"with_judge": judged.value, "judge_failed": 0.0}
