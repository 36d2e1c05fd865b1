"""Grades answers that call functions, or correctly call none."""

import json

from services.contracts.errors import InvalidRequest
from services.contracts.rewards.graders import FunctionCallsGrader
from services.rewards.function_calls.answers import calls_of
from services.rewards.function_calls.check import are_allowed, normal_form
from services.rewards.function_calls.rows import read_question
from services.rewards.interface import RewardFailed, Sample, Score


class FunctionCalls:
    """1 when the answer makes the calls that its row allows, else 0."""

    def __init__(self, settings: FunctionCallsGrader) -> None:
        self._settings = settings

    async def score(self, sample: Sample) -> Score:
        """Grade an answer; raises `RewardFailed` for a row that asks nothing.

        Where no call is expected, an answer without any is right. ``extracted`` is the JSON of the
        calls, None where an answer that should have some states none.
        """
        try:
            question = read_question(sample.item, self._settings)
        except InvalidRequest as error:
            raise RewardFailed(f"the row's {error.param}: {error.message}") from None
        calls = calls_of(sample.answer)
        if calls is None and not question.calls:
            calls = []
        value = float(calls is not None and are_allowed(calls, question))
        extracted = vote = None
        if calls is not None:
            vote = normal_form(calls, question)
            stated = [{"name": each.function, "arguments": each.arguments} for each in calls]
            extracted = json.dumps(stated, ensure_ascii=False)
        measures = {"accuracy": value} if question.category else {}
        return Score(
            value, extracted=extracted, group=question.category, measures=measures, vote=vote
        )
