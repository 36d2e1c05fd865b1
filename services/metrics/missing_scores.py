"""Scores of items of which some are missing, such as those that a grader could not give.

A missing score never helps: it counts as the worst one of all that are compared, or as 0 where
that is worse. What the infrastructure lost is not missing: it is left out beforehand.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from services.metrics.paired import PairedDifference

Score = float | None


def mean_score(scores: Collection[Score], *, higher_is_better: bool) -> float | None:
    """The mean over all items; None without any, and if none has a score and 0 could be the best
    one."""
    given = [score for score in scores if score is not None]
    if not scores or (not given and not higher_is_better):
        return None
    worst = worst_score(given, higher_is_better=higher_is_better)
    return sum(_filled(scores, worst)) / len(scores)


def compare_scores(
    baseline: Sequence[Score],
    candidate: Sequence[Score],
    *,
    higher_is_better: bool,
    shares: bool = False,
) -> "PairedDifference":
    """Compare scores of the same items in the same order, in the direction of improvement.

    A missing score counts as the worst of both runs; means are taken over the filled scores.
    ``shares`` says that each score is the share of 0/1 samples.
    """
    # What only takes means need not load numpy.
    from services.metrics.paired import compare  # noqa: PLC0415 - loaded with the first comparison

    before, after = _both_filled(baseline, candidate, higher_is_better=higher_is_better)
    if higher_is_better:
        return compare(before, after, shares=shares)
    found = compare(after, before, shares=shares)
    return replace(found, baseline_mean=found.candidate_mean, candidate_mean=found.baseline_mean)


def gain_of_scores(
    baseline: Sequence[Score], candidate: Sequence[Score], *, higher_is_better: bool
) -> float:
    """The one-sided p-value of a gain of the candidate, over the items of `compare_scores`; valid
    at the small levels that many comparisons need."""
    from services.metrics.gains import gain_p_value  # noqa: PLC0415 - with numpy

    before, after = _both_filled(baseline, candidate, higher_is_better=higher_is_better)
    return gain_p_value(before, after) if higher_is_better else gain_p_value(after, before)


def _both_filled(
    baseline: Sequence[Score], candidate: Sequence[Score], *, higher_is_better: bool
) -> tuple[list[float], list[float]]:
    given = [score for score in (*baseline, *candidate) if score is not None]
    worst = worst_score(given, higher_is_better=higher_is_better)
    return _filled(baseline, worst), _filled(candidate, worst)


def worst_score(given: Iterable[float], *, higher_is_better: bool) -> float:
    """What a missing score counts as among the ``given`` ones."""
    return min([0.0, *given]) if higher_is_better else max([0.0, *given])


def _filled(scores: Collection[Score], worst: float) -> list[float]:
    return [worst if score is None else score for score in scores]
