"""The main metric of a benchmark, which leaderboards, comparisons and means use."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from services.contracts.evaluation.evaluations import BenchmarkOutcome, declared_metric
from services.contracts.evaluation.metrics import Direction, MainMetric
from services.contracts.evaluation.results import EvaluationMetrics, ItemEstimate, MeasureEstimate
from services.contracts.rewards.graders import ChemistryGrader, PanoramaGrader
from services.contracts.rewards.openai_graders import MultiGrader, PythonGrader, ScoreModelGrader
from services.contracts.rewards.rewards import EnvironmentReward, EvaluationGrader

ACCURACY, MEAN_SCORE = "accuracy", "mean_score"
_PANORAMA = {"par4pc": "item_score", "pi4pc": "item_score", "noc4pc": "macro_f1"}
"""The published score of each task."""
_CHEMISTRY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "mol_und": ("absolute_error", "similarity", "accuracy"),
        "mol_edit": ("correct_rate",),
        "mol_opt": ("success",),
        "reaction": ("exact_match", "accuracy"),
    }
)
"""The published scores of each task, of which a sub-task has one."""


def main_metric(outcome: BenchmarkOutcome) -> MainMetric | None:
    """The main metric of a benchmark; None as long as it has no results."""
    if outcome.metrics is None:
        return None
    name, direction = declared_metric(outcome.benchmark)
    if name is not None:
        return _declared(name, direction, outcome.grader, outcome.metrics)
    if isinstance(outcome.grader, PanoramaGrader):
        return _patents(outcome.grader, outcome.metrics)
    if isinstance(outcome.grader, ChemistryGrader):
        return _chemistry(outcome.metrics)
    return _of(ACCURACY, accuracy_of(outcome.metrics))


def accuracy_of(metrics: EvaluationMetrics) -> ItemEstimate:
    """The accuracy as an estimate."""
    return ItemEstimate(mean=metrics.accuracy, stderr=metrics.stderr, ci95=metrics.ci95)


def mean_of_independent(estimates: Sequence[ItemEstimate]) -> ItemEstimate:
    """The unweighted mean of estimates from different items.

    The interval is made of theirs, which may be asymmetric, by the method of G. Y. Zou and A.
    Donner, "Construction of confidence limits about effect measures", Statistics in Medicine 27
    (2008): it has a width where all standard errors are 0, and stays where theirs are.
    """
    number = len(estimates)
    mean = math.fsum(each.mean for each in estimates) / number
    below = math.hypot(*(each.mean - each.ci95[0] for each in estimates)) / number
    above = math.hypot(*(each.ci95[1] - each.mean for each in estimates)) / number
    stderr = math.hypot(*(each.stderr for each in estimates)) / number
    return ItemEstimate(mean=mean, stderr=stderr, ci95=(mean - below, mean + above))


def estimate_of(found: MainMetric | MeasureEstimate) -> ItemEstimate | None:
    """A metric with its error, if it has one."""
    if found.mean is None or found.stderr is None or found.ci95 is None:
        return None
    return ItemEstimate(mean=found.mean, stderr=found.stderr, ci95=found.ci95)


def _of(name: str, found: ItemEstimate | None, not_averaged: str | None = None) -> MainMetric:
    own = {} if found is None else found.model_dump()
    return MainMetric(name=name, not_averaged=not_averaged, **own)


def _declared(
    name: str, direction: Direction, grader: EvaluationGrader, metrics: EvaluationMetrics
) -> MainMetric:
    if name == MEAN_SCORE:
        return MainMetric(
            name=name,
            direction=direction,
            mean=metrics.mean_score,
            stderr=metrics.mean_score_stderr,
            ci95=metrics.mean_score_ci95,
            not_averaged=_other_scale(direction, grader),
        )
    if name == "majority":
        return _of("majority", metrics.majority)
    if name == "pass_at_k":
        by_k = metrics.pass_at_k or {}
        return _of(f"pass@{metrics.samples_per_item}", by_k.get(str(metrics.samples_per_item)))
    return _of(ACCURACY, accuracy_of(metrics))


def _other_scale(direction: Direction, grader: EvaluationGrader) -> str | None:
    if direction == "minimize":
        return "lower scores are better"
    is_free = isinstance(grader, PythonGrader | MultiGrader | EnvironmentReward) or (
        isinstance(grader, ScoreModelGrader) and grader.range != [0.0, 1.0]
    )
    return "its scores need not lie between 0 and 1" if is_free else None


def _patents(grader: PanoramaGrader, metrics: EvaluationMetrics) -> MainMetric:
    name = _PANORAMA[grader.task]
    found = (metrics.measures or {}).get(grader.task, {}).get(name)
    if found is None:
        return MainMetric(name=name)
    return MainMetric(name=name, **found.model_dump(include={"mean", "stderr", "ci95"}))


def _chemistry(metrics: EvaluationMetrics) -> MainMetric:
    """The mean over the sub-tasks of the published score of each, where all are shares."""
    scores = [
        (name, measures[name])
        for part, measures in (metrics.measures or {}).items()
        for name in _CHEMISTRY.get(part.partition("/")[0], ())
        if name in measures
    ]
    names = " and ".join(sorted({name for name, _ in scores}))
    if any(found.lower_is_better for _, found in scores):
        why = f"its sub-tasks have errors and shares, which have no mean: {names}"
        return _of(ACCURACY, accuracy_of(metrics), why)
    estimates = [estimate_of(found) for _, found in scores]
    known = [each for each in estimates if each is not None]
    if not known or len(known) < len(scores):
        why = "a sub-task has too few graded answers for the error of its score"
        return _of(ACCURACY, accuracy_of(metrics), why)
    return _of(names, mean_of_independent(known))
