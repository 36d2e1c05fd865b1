"""One number over several benchmarks: the unweighted mean of their main metrics."""

from collections.abc import Iterable, Sequence
from itertools import combinations

from services.contracts.evaluation.benchmarks import SplitName
from services.contracts.evaluation.evaluations import BenchmarkOutcome
from services.contracts.evaluation.results import ItemEstimate, MacroAverage
from services.metrics.main_metric import estimate_of, main_metric, mean_of_independent


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
        mains = {str(each.name): _averaged(each) for each in outcomes}
        mean = mean_of_independent([estimate for _, estimate in mains.values()])
    except NoMacroAverage as reason:
        return MacroAverage(missing=str(reason))
    metrics = {name: metric for name, (metric, _) in mains.items()}
    return MacroAverage(metrics=metrics, mean=mean)


def share_items(one: tuple[str, SplitName | None], other: tuple[str, SplitName | None]) -> bool:
    """Whether two parts of files have items in common: the parts of a split have none."""
    is_same_part = one[1] == other[1] or None in (one[1], other[1])
    return one[0] == other[0] and is_same_part


def _check_independent(outcomes: Iterable[BenchmarkOutcome]) -> None:
    for one, other in combinations(outcomes, 2):
        if share_items((one.file, one.split), (other.file, other.split)):
            raise NoMacroAverage(f"{one.name} and {other.name} have the same items")


def _averaged(outcome: BenchmarkOutcome) -> tuple[str, ItemEstimate]:
    """The name and the value of the main metric: a fraction, higher is better."""
    found = main_metric(outcome)
    if found is None or (estimate := estimate_of(found)) is None:
        metric = "its main metric" if found is None else found.name
        raise NoMacroAverage(f"{outcome.name} has too few graded answers for the error of {metric}")
    if found.not_averaged is not None:
        raise NoMacroAverage(f"{outcome.name}: {found.not_averaged}")
    return found.name, estimate
