"""One number over several benchmarks: the unweighted mean of their main metrics."""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

from services.contracts.benchmarks import SplitName
from services.contracts.evaluation_results import EvaluationMetrics, ItemEstimate, MacroAverage
from services.contracts.evaluations import BenchmarkOutcome
from services.contracts.graders import ChemistryGrader, PanoramaGrader

ACCURACY = "accuracy"
_PANORAMA = {"par4pc": "item_score", "pi4pc": "item_score", "noc4pc": "macro_f1"}
"""The published score of each task."""


class NoMacroAverage(Exception):
    """Why benchmarks have no mean."""


def macro_average(outcomes: Sequence[BenchmarkOutcome]) -> MacroAverage | None:
    """The mean over the benchmarks of an evaluation, or why there is none.

    None with one benchmark, and as long as there are no results.
    """
    if len(outcomes) < 2 or any(each.metrics is None for each in outcomes):
        return None
    try:
        _check_independent(outcomes)
        mains = {
            str(each.name): _main_metric(each, each.metrics) for each in outcomes if each.metrics
        }
        mean = mean_of_independent([estimate for _, estimate in mains.values()])
    except NoMacroAverage as reason:
        return MacroAverage(missing=str(reason))
    metrics = {name: metric for name, (metric, _) in mains.items()}
    return MacroAverage(metrics=metrics, mean=mean)


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


def share_items(one: tuple[str, SplitName | None], other: tuple[str, SplitName | None]) -> bool:
    """Whether two parts of files have items in common: the parts of a split have none."""
    is_same_part = one[1] == other[1] or None in (one[1], other[1])
    return one[0] == other[0] and is_same_part


def accuracy_of(metrics: EvaluationMetrics) -> ItemEstimate:
    """The accuracy as an estimate."""
    return ItemEstimate(mean=metrics.accuracy, stderr=metrics.stderr, ci95=metrics.ci95)


def _check_independent(outcomes: Iterable[BenchmarkOutcome]) -> None:
    for one, other in combinations(outcomes, 2):
        if share_items((one.file, one.split), (other.file, other.split)):
            raise NoMacroAverage(f"{one.name} and {other.name} have the same items")


def _main_metric(outcome: BenchmarkOutcome, metrics: EvaluationMetrics) -> tuple[str, ItemEstimate]:
    """The name and the value of what stands for a benchmark: a share, of which more is better."""
    grader, name = outcome.grader, outcome.name
    if isinstance(grader, ChemistryGrader):
        raise NoMacroAverage(
            f"{name} has a measure for each sub-task: differences, errors and shares have no mean"
        )
    if not isinstance(grader, PanoramaGrader):
        return ACCURACY, accuracy_of(metrics)
    metric = _PANORAMA[grader.task]
    found = (metrics.measures or {}).get(grader.task, {}).get(metric)
    if found is None or found.stderr is None or found.ci95 is None:
        raise NoMacroAverage(f"{name} has too few graded answers for the error of {metric}")
    return metric, ItemEstimate(mean=found.mean, stderr=found.stderr, ci95=found.ci95)
