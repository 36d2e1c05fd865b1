"""Chemistry as a family of rewards."""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from services.contracts.base import JsonObject
from services.contracts.evaluation.metrics import MainMetric
from services.contracts.evaluation.results import EvaluationMetrics, ItemEstimate
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
from services.metrics.repeated import bounded_mean
from services.rewards.chemistry.grader import Chemistry
from services.rewards.chemistry.oracles import Oracles
from services.rewards.chemistry.rows import (
    CHOICE,
    COUNT,
    REACTIONS,
    SCAFFOLD,
    UNDERSTANDING,
    read_question,
)
from services.rewards.families import RewardContext, RewardFamily

RUNTIME = "grading"
_ERROR = "absolute_error"


def _published(part: str) -> str:
    """The published score of a sub-task, ``TASK/SUB-TASK``."""
    task, _, subtask = part.partition("/")
    match task:
        case "mol_edit":
            return "correct_rate"
        case "mol_opt":
            return "success"
        case "reaction":
            return ACCURACY if REACTIONS.get(subtask) == (CHOICE,) else "exact_match"
    return {COUNT: _ERROR, SCAFFOLD: "similarity"}.get(UNDERSTANDING.get(subtask, ""), ACCURACY)


def _counted_parts(metrics: EvaluationMetrics) -> Sequence[str]:
    """The sub-tasks with a sample that was graded, or has no answer; in results of earlier
    versions, those with a measure. A property without an oracle has none."""
    if metrics.subtasks is None:
        return list(metrics.measures or ())
    return [
        part
        for part, found in metrics.subtasks.items()
        if found.errors < found.samples or found.unanswered
    ]


def _estimate(metrics: EvaluationMetrics, part: str) -> ItemEstimate | None:
    """The published score of a sub-task; None if it is of one item alone."""
    measures = (metrics.measures or {}).get(part, {})
    found, counts = measures.get(_published(part)), (metrics.subtasks or {}).get(part)
    if counts is None:
        graded, unanswered = max(each.samples for each in measures.values()), 0
    else:
        graded, unanswered = counts.samples - counts.errors, counts.unanswered
    if found is None:
        items = math.ceil((graded + unanswered) / metrics.samples_per_item)
        nothing = bounded_mean([0.0] * items, [1] * items, items)
        return ItemEstimate(mean=0.0, stderr=0.0, ci95=nothing.ci95)
    estimate = estimate_of(found)
    return None if estimate is None else with_zeros(estimate, graded, unanswered)


class ChemistryFamily(RewardFamily[ChemistryGrader]):
    """Answers about molecules."""

    settings = ChemistryGrader
    runtime = RUNTIME
    extracts = True
    measures = MeasureRules(
        lower_is_better=frozenset({_ERROR, "levenshtein"}),
        winsorized=frozenset({"improvement"}),
        products={"fts": "valid"},  # as ChemCoTBench does
        unbounded=frozenset({_ERROR, "levenshtein", "improvement"}),
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

    def subtask_of(self, fields: JsonObject, settings: ChemistryGrader) -> str:
        """Return the task and the sub-task of a row."""
        return read_question(fields, settings).part

    def main_metric(
        self,
        settings: ChemistryGrader,  # noqa: ARG002 - the interface of families
        metrics: EvaluationMetrics,
    ) -> MainMetric:
        """Return the mean over the sub-tasks of the published score of each, where all are shares.

        A sample without an answer counts as 0 in its sub-task, as does a sub-task of which no
        answer has the score, such as one without a molecule. Else the accuracy, and why.
        """
        parts = _counted_parts(metrics)
        names = {_published(part) for part in parts}
        listed = " and ".join(sorted(names))
        if _ERROR in names:
            why = f"its sub-tasks have errors and shares, which have no mean: {listed}"
            return metric_of(ACCURACY, accuracy_of(metrics), why)
        estimates = [_estimate(metrics, part) for part in parts]
        known = [each for each in estimates if each is not None]
        if not known or len(known) < len(parts):
            why = "a sub-task has too few graded answers for the error of its score"
            return metric_of(ACCURACY, accuracy_of(metrics), why)
        mean = mean_of_independent(known)
        if metrics.subtasks is None:
            # Results of earlier versions do not tell whose samples have no answer.
            mean = with_zeros(mean, metrics.samples - metrics.errors, metrics.unanswered)
        return metric_of(listed, mean)

    def may_regrade(
        self, settings: ChemistryGrader, environment: OperatorEnvironment
    ) -> str | None:
        """Only an oracle may grade otherwise."""
        has_oracle = environment.oracles and "mol_opt" in settings.tasks
        return "the operator's oracles may change" if has_oracle else None
