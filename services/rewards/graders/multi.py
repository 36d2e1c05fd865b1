"""A formula over other graders."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from services.rewards.component import Component, RewardFailed, Score, Trouble
from services.rewards.graders.formula import Formula
from services.rewards.sample import Sample


class Multi:
    """The formula's value; the graders that it does not use are asked too."""

    def __init__(self, formula: Formula, graders: Mapping[str, Component]) -> None:
        self._formula = formula
        self._graders = graders

    async def score(self, sample: Sample) -> Score:
        """Ask all graders at once, and compute."""
        async with asyncio.TaskGroup() as group:
            asked = {
                name: group.create_task(self._ask(name, grader, sample))
                for name, grader in self._graders.items()
            }
        answers = {name: task.result() for name, task in asked.items()}
        failed = [answer for answer in answers.values() if isinstance(answer, RewardFailed)]
        if failed:
            raise failed[0]
        scores = {name: answer for name, answer in answers.items() if isinstance(answer, Score)}
        return self._combine(scores)

    async def _ask(self, name: str, grader: Component, sample: Sample) -> Score | RewardFailed:
        try:
            return await grader.score(sample)
        except RewardFailed as error:
            return RewardFailed(f"{name}: {error.message}", error.trouble)

    def _combine(self, scores: Mapping[str, Score]) -> Score:
        parts = {name: score.value for name, score in scores.items()}
        tokens: Counter[str] = Counter()
        for score in scores.values():
            tokens.update(score.tokens)
        try:
            value = self._formula.evaluate(parts)
        except (ArithmeticError, ValueError) as error:
            message = f"calculate_output cannot be computed: {error}"
            raise RewardFailed(message, Trouble.OTHER) from error
        return Score(value, parts=parts, tokens=tokens)
