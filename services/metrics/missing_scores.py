"""Scores of items of which some samples have none, such as those that a grader could not give.

A missing score never helps: it counts as the worst one of all samples that are compared, or as 0
where that is worse. What the infrastructure lost is not missing: it is left out beforehand.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

if TYPE_CHECKING:
    from services.metrics.paired import PairedDifference


@dataclass(frozen=True, slots=True)
class PartialScore:
    """The score of an item of which the share ``missing`` of all samples has none.

    ``given`` is the sum over the others, divided by the number of all samples: the item's mean is
    ``given`` and, for the missing ones, ``missing`` times what one of them counts as.
    """

    given: float
    missing: float


Score = float | PartialScore | None
"""The mean of an item over its samples. None is one of an earlier version, which does not say how
many samples had a score."""
Scores = dict[int, Score]
"""By item; those that the infrastructure lost are absent."""

_SCORES: TypeAdapter[Scores] = TypeAdapter(Scores)
NOTHING = PartialScore(given=0.0, missing=1.0)


@dataclass(frozen=True, slots=True)
class ScoredItems:
    """The scores of a run, and the worst one of all its samples; None: not known, or no sample has
    one."""

    scores: Mapping[int, Score]
    worst: float | None = None

    @property
    def comparable(self) -> frozenset[int]:
        """The items of which it is known how many samples have a score."""
        return frozenset(item for item, score in self.scores.items() if score is not None)


def stored_scores(stored: Any, samples: int) -> Scores:
    """Scores as they were stored, also by earlier versions: None of a single sample is one that has
    no score."""
    scores = _SCORES.validate_python(stored)
    if samples > 1:
        return scores
    return {item: NOTHING if score is None else score for item, score in scores.items()}


def score_of(samples: Sequence[float | None]) -> Score:
    """The score of an item with these samples, of which there is at least one."""
    given = [score for score in samples if score is not None]
    total = math.fsum(given) / len(samples)
    if len(given) == len(samples):
        return total
    return PartialScore(total, 1 - len(given) / len(samples))


def mean_of(scores: Sequence[Score]) -> Score:
    """The mean of several scores of the same item, None if one of them is."""
    parts = [_parts(score) for score in scores if score is not None]
    if len(parts) < len(scores):
        return None
    given = math.fsum(each.given for each in parts) / len(parts)
    missing = math.fsum(each.missing for each in parts) / len(parts)
    return PartialScore(given, missing) if missing else given


def mean_score(run: ScoredItems, *, higher_is_better: bool) -> float | None:
    """The mean over all items; None without any, and if no sample has a score and 0 could be the
    best one. An item of which it is not known how many samples have one counts as the worst."""
    parts = [_parts(NOTHING if score is None else score) for score in run.scores.values()]
    has_scores = any(each.missing < 1 for each in parts)
    if not parts or (not has_scores and not higher_is_better):
        return None
    worst = _worst([run], run.scores, higher_is_better=higher_is_better)
    return sum(each.given + each.missing * worst for each in parts) / len(parts)


def compare_scores(
    baseline: ScoredItems,
    candidate: ScoredItems,
    items: Collection[int],
    *,
    higher_is_better: bool,
    shares: bool = False,
) -> "PairedDifference":
    """Compare the scores of items that are comparable in both runs, in the direction of
    improvement.

    A sample without a score counts as the worst one of both runs; means are taken over the filled
    scores. ``shares`` says that each score is the share of 0/1 samples.
    """
    # What only takes means need not load numpy.
    from services.metrics.paired import compare  # noqa: PLC0415 - loaded with the first comparison

    before, after = _both_filled(baseline, candidate, items, higher_is_better=higher_is_better)
    if higher_is_better:
        return compare(before, after, shares=shares)
    found = compare(after, before, shares=shares)
    return replace(found, baseline_mean=found.candidate_mean, candidate_mean=found.baseline_mean)


def gain_of_scores(
    baseline: ScoredItems,
    candidate: ScoredItems,
    items: Collection[int],
    *,
    higher_is_better: bool,
) -> float:
    """The one-sided p-value of a gain of the candidate, over the items of `compare_scores`; valid
    at the small levels that many comparisons need."""
    from services.metrics.gains import gain_p_value  # noqa: PLC0415 - with numpy

    before, after = _both_filled(baseline, candidate, items, higher_is_better=higher_is_better)
    return gain_p_value(before, after) if higher_is_better else gain_p_value(after, before)


def worst_score(given: Iterable[float], *, higher_is_better: bool) -> float:
    """What a missing score counts as among the ``given`` ones."""
    return min([0.0, *given]) if higher_is_better else max([0.0, *given])


def worst_given(samples: Iterable[float | None], *, higher_is_better: bool) -> float | None:
    """The worst of the scores that are given; None of none."""
    given = [score for score in samples if score is not None]
    return (min(given) if higher_is_better else max(given)) if given else None


def _both_filled(
    baseline: ScoredItems,
    candidate: ScoredItems,
    items: Collection[int],
    *,
    higher_is_better: bool,
) -> tuple[list[float], list[float]]:
    runs = (baseline, candidate)
    worst = _worst(runs, items, higher_is_better=higher_is_better)
    before, after = ([_filled(run.scores[item], worst) for item in items] for run in runs)
    return before, after


def _worst(runs: Iterable[ScoredItems], items: Collection[int], *, higher_is_better: bool) -> float:
    """What a missing sample counts as: the worst of all samples, where that is known."""
    given = [run.worst for run in runs if run.worst is not None]
    # Of earlier versions, only the means of complete items are known.
    given += [
        score for run in runs for item in items if isinstance(score := run.scores[item], float)
    ]
    return worst_score(given, higher_is_better=higher_is_better)


def _parts(score: float | PartialScore) -> PartialScore:
    return score if isinstance(score, PartialScore) else PartialScore(score, 0.0)


def _filled(score: Score, worst: float) -> float:
    parts = _parts(NOTHING if score is None else score)
    return parts.given + parts.missing * worst
