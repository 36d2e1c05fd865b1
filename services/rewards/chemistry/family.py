"""Chemistry as a family of rewards."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType

from services.contracts.base import JsonObject
from services.contracts.evaluation.metrics import MainMetric
from services.contracts.evaluation.results import EvaluationMetrics
from services.contracts.rewards.graders import ChemistryGrader
from services.core.operator_environment import OperatorEnvironment
from services.metrics.main_metric import (
    ACCURACY,
    accuracy_of,
    estimate_of,
    mean_of_independent,
    metric_of,
    with_zeros,
)
from services.metrics.measures import MeasureRules
from services.rewards.chemistry.grader import Chemistry
from services.rewards.chemistry.oracles import Oracles
from services.rewards.chemistry.rows import read_question
from services.rewards.families import RewardContext, RewardFamily

RUNTIME = "grading"
_PUBLISHED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mol_und": ("absolute_error", "similarity", "accuracy"),
        "mol_edit": ("correct_rate",),
        "mol_opt": ("success",),
        "reaction": ("exact_match", "accuracy"),
    }
)
"""The published scores of each task, of which a sub-task has one."""


class ChemistryFamily(RewardFamily[ChemistryGrader]):
    """Answers about molecules."""

    settings = ChemistryGrader
    runtime = RUNTIME
    extracts = True
    measures = MeasureRules(
        lower_is_better=frozenset({"absolute_error", "levenshtein"}),
        winsorized=frozenset({"improvement"}),
        products={"fts": "valid"},  # as ChemCoTBench does
    )

    @asynccontextmanager
    async def open(
        self, settings: ChemistryGrader, context: RewardContext
    ) -> AsyncIterator[Chemistry]:
        """Start nothing before the first answer; raises `InvalidRequest` without the runtime."""
        environment = context.environment
        oracles = Oracles(environment.oracles, environment.callables_folder)
        chemistry = Chemistry(settings, context.python(RUNTIME), oracles)
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

    def main_metric(
        self,
        settings: ChemistryGrader,  # noqa: ARG002 - the interface of families
        metrics: EvaluationMetrics,
    ) -> MainMetric:
        """Return the mean over the sub-tasks of the published score of each, where all are shares.

        A sample without an answer counts as 0 in it. Else the accuracy, and why.
        """
        scores = [
            (name, measures[name])
            for part, measures in (metrics.measures or {}).items()
            for name in _PUBLISHED.get(part.partition("/")[0], ())
            if name in measures
        ]
        names = " and ".join(sorted({name for name, _ in scores}))
        if any(found.lower_is_better for _, found in scores):
            why = f"its sub-tasks have errors and shares, which have no mean: {names}"
            return metric_of(ACCURACY, accuracy_of(metrics), why)
        estimates = [estimate_of(found) for _, found in scores]
        known = [each for each in estimates if each is not None]
        if not known or len(known) < len(scores):
            why = "a sub-task has too few graded answers for the error of its score"
            return metric_of(ACCURACY, accuracy_of(metrics), why)
        graded = metrics.samples - metrics.errors
        return metric_of(names, with_zeros(mean_of_independent(known), graded, metrics.unanswered))

    def may_regrade(
        self, settings: ChemistryGrader, environment: OperatorEnvironment
    ) -> str | None:
        """Only an oracle may grade otherwise."""
        has_oracle = environment.oracles and "mol_opt" in settings.tasks
        return "the operator's oracles may change" if has_oracle else None
