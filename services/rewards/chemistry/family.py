"""Chemistry as a family of rewards."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from services.contracts.base import JsonObject
from services.contracts.rewards.graders import ChemistryGrader
from services.rewards.chemistry.grader import Chemistry
from services.rewards.chemistry.oracles import Oracles
from services.rewards.chemistry.rows import read_question
from services.rewards.families import RewardContext, RewardFamily


class ChemistryFamily(RewardFamily[ChemistryGrader]):
    """Answers about molecules."""

    settings = ChemistryGrader

    @asynccontextmanager
    async def open(
        self, settings: ChemistryGrader, context: RewardContext
    ) -> AsyncIterator[Chemistry]:
        """Start nothing before the first answer; raises `InvalidRequest` without the runtime."""
        environment = context.environment
        oracles = Oracles(environment.oracles, environment.callables_folder)
        chemistry = Chemistry(settings, environment.grading_python, oracles, context.param)
        async with oracles, chemistry:
            yield chemistry

    def check_row(
        self,
        fields: JsonObject,
        golds: Sequence[str],  # noqa: ARG002 - the interface of families
        settings: ChemistryGrader,
    ) -> None:
        """Raise `InvalidRequest` for a row without a question of its sub-task."""
        read_question(fields, settings)
