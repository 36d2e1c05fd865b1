"""The main metric of a benchmark, which leaderboards, comparisons and means use."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TypeVar

from services.contracts.evaluation.evaluations import BenchmarkOutcome, declared_metric
from services.contracts.evaluation.metrics import Direction, MainMetric
from services.contracts.evaluation.results import EvaluationMetrics, ItemEstimate, MeasureEstimate
from services.contracts.rewards.openai_graders import MultiGrader, PythonGrader, ScoreModelGrader
from services.contracts.rewards.rewards import EnvironmentReward, EvaluationGrader

ACCURACY, MEAN_SCORE = "accuracy", "mean_score"
LOWER = "lower scores are better"
NO_SHARE = "it is not a share of answers"
_Z95 = NormalDist().inv_cdf(0.975)
_Mean = TypeVar("_Mean", MainMetric, MeasureEstimate, ItemEstimate)


def main_metric(outcome: BenchmarkOutcome) -> MainMetric | None:
    """The main metric of a benchmark; None as long as it has no results."""
    if outcome.metrics is None:
        return None
    name, direction = declared_metric(outcome.benchmark)
    if name is not None:
        return _declared(name, direction, outcome.grader, outcome.metrics)
    if outcome.metrics.grader_metric is not None:
        return _with_scale(outcome.metrics.grader_metric)
    return metric_of(ACCURACY, accuracy_of(outcome.metrics))


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


def with_zeros(found: _Mean, counted: int, missing: int) -> _Mean:
    """A mean of shares over ``counted`` answers, as one over these and ``missing`` ones of 0.

    It is the product of the mean and of the share that is counted, with the standard error of a
    product of independent estimates (delta method); the interval widens alike.
    """
    mean = found.mean
    if mean is None or not missing:
        return found
    share = counted / (counted + missing)
    spread = mean * math.sqrt(share * (1 - share) / (counted + missing))
    update: dict[str, object] = {"mean": mean * share}
    if found.stderr is not None:
        update["stderr"] = math.hypot(share * found.stderr, spread)
    if found.ci95 is not None:
        low, high = (math.hypot(share * (end - mean), _Z95 * spread) for end in found.ci95)
        update["ci95"] = (max(0.0, mean * share - low), min(1.0, mean * share + high))
    return found.model_copy(update=update)


def metric_of(
    name: str, found: ItemEstimate | MeasureEstimate | None, not_averaged: str | None = None
) -> MainMetric:
    """A main metric with its error; ``found`` None: nothing was graded."""
    own = {} if found is None else found.model_dump(include={"mean", "stderr", "ci95"})
    return MainMetric(name=name, not_averaged=not_averaged, **own)


def _declared(
    name: str, direction: Direction, grader: EvaluationGrader, metrics: EvaluationMetrics
) -> MainMetric:
    if name == MEAN_SCORE:
        return _mean_score(direction, grader, metrics)
    if name == "majority":
        return metric_of("majority", metrics.majority)
    if name == "pass_at_k":
        by_k = metrics.pass_at_k or {}
        return metric_of(
            f"pass@{metrics.samples_per_item}", by_k.get(str(metrics.samples_per_item))
        )
    return metric_of(ACCURACY, accuracy_of(metrics))


def _mean_score(
    direction: Direction, grader: EvaluationGrader, metrics: EvaluationMetrics
) -> MainMetric:
    found = MainMetric(
        name=MEAN_SCORE,
        direction=direction,
        mean=metrics.mean_score,
        stderr=metrics.mean_score_stderr,
        ci95=metrics.mean_score_ci95,
        share=False,
        not_averaged=_other_scale(direction, grader),
    )
    if metrics.worst_score is None and found.not_averaged is None:
        # Results of earlier versions leave samples without a score out of the mean.
        return with_zeros(found, metrics.samples - metrics.errors, metrics.errors)
    return found


def _with_scale(metric: MainMetric) -> MainMetric:
    """What a grader names, left out of means where these would mix other numbers with shares."""
    if metric.not_averaged is not None or (metric.share and metric.direction == "maximize"):
        return metric
    reason = LOWER if metric.direction == "minimize" else NO_SHARE
    return metric.model_copy(update={"not_averaged": reason})


def _other_scale(direction: Direction, grader: EvaluationGrader) -> str | None:
    if direction == "minimize":
        return LOWER
    is_free = isinstance(grader, PythonGrader | MultiGrader | EnvironmentReward) or (
        isinstance(grader, ScoreModelGrader) and grader.range != [0.0, 1.0]
    )
    return "its scores need not lie between 0 and 1" if is_free else None
