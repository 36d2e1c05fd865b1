"""Calls of functions as a family of rewards."""

from collections.abc import Sequence
from contextlib import nullcontext

from services.contracts.base import JsonObject
from services.contracts.rewards.graders import FunctionCallsGrader
from services.core.operator_environment import OperatorEnvironment
from services.rewards.families import RewardContext, RewardFamily
from services.rewards.function_calls.grader import FunctionCalls
from services.rewards.function_calls.rows import read_question


class FunctionCallsFamily(RewardFamily[FunctionCallsGrader]):
    """Answers that call functions."""

    settings = FunctionCallsGrader
    extracts = True

    def open(
        self,
        settings: FunctionCallsGrader,
        context: RewardContext,  # noqa: ARG002 - the interface of families
    ) -> nullcontext[FunctionCalls]:
        """Return a component that needs nothing but the row."""
        return nullcontext(FunctionCalls(settings))

    def check_row(
        self,
        fields: JsonObject,
        golds: Sequence[str],  # noqa: ARG002 - the interface of families
        settings: FunctionCallsGrader,
    ) -> None:
        """Raise `InvalidRequest` for a row that asks nothing."""
        read_question(fields, settings)

    def subtask_of(self, fields: JsonObject, settings: FunctionCallsGrader) -> str | None:
        """Return the category of a row."""
        return read_question(fields, settings).category

    def may_regrade(
        self,
        settings: FunctionCallsGrader,
        environment: OperatorEnvironment,
    ) -> None:
        """Equal answers have equal grades."""
