"""Means of the numbers that a grader gives for each answer, by group and measure."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, quantiles

from services.metrics.repeated import bounded_interval

_Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class MeasureRules:
    """How the numbers that a grader gives for each answer become those of a report, by their names.

    All others are plain means, of which higher ones are better. The mean of ``winsorized`` measures
    counts values beyond the 5th and 95th percentile as these. ``ratios`` are measures that are the
    mean of ratios of sums of two others, which are not reported themselves. The mean of
    ``products`` is multiplied by that of the measure that they name. ``unbounded`` measures, such
    as counts and errors, are no shares, also where all their values are within 0 and 1.
    """

    lower_is_better: frozenset[str] = frozenset()
    winsorized: frozenset[str] = frozenset()
    ratios: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    products: Mapping[str, str] = field(default_factory=dict)
    unbounded: frozenset[str] = frozenset()

    @property
    def parts(self) -> frozenset[str]:
        """What only ratios are made of."""
        return frozenset(name for pairs in self.ratios.values() for pair in pairs for name in pair)


PLAIN = MeasureRules()


@dataclass(frozen=True, slots=True)
class MeasureMean:
    """A mean over ``samples`` answers; one item alone shows no error, and no interval.

    The interval of shares is within 0 and 1, and has a width where all are alike: see
    `bounded_interval`. That of other values is normal.
    """

    mean: float
    samples: int
    stderr: float | None
    ci95: tuple[float, float] | None


class Measures:
    """Averages numbers of answers in any order; items are clusters, as their answers are alike."""

    def __init__(self, rules: MeasureRules = PLAIN) -> None:
        self._rules = rules
        self._values: dict[str, dict[str, dict[int, list[float]]]] = defaultdict(
            lambda: defaultdict(lambda: defaultdict(list))
        )

    def add(self, group: str, item: int, measures: Mapping[str, float]) -> None:
        """Count the numbers of one answer."""
        for name, value in measures.items():
            self._values[group][name][item].append(value)

    def means(self) -> dict[str, dict[str, MeasureMean]]:
        """By group and measure, both in order of their names."""
        return {
            group: dict(sorted(_means(measures, self._rules).items()))
            for group, measures in sorted(self._values.items())
        }


_Interval = tuple[float, float]


def mean_of_clusters(
    clusters: Mapping[int, list[float]], bounds: _Interval | None = (0.0, 1.0)
) -> MeasureMean:
    """The mean over all values of at least one item, whose values are alike.

    Where all are within ``bounds``, they are shares of the way between these.
    """
    values = [value for each in clusters.values() for value in each]
    low, high = bounds or (0.0, 1.0)
    are_shares = bounds is not None and all(low <= value <= high for value in values)
    if not are_shares:
        low, high = 0.0, 1.0
    width = high - low
    shares = {item: [(value - low) / width for value in each] for item, each in clusters.items()}
    found = _ratio([(shares, _ones(clusters))], are_shares=are_shares)
    return MeasureMean(
        low + width * found.mean,
        found.samples,
        None if found.stderr is None else width * found.stderr,
        None if found.ci95 is None else (low + width * found.ci95[0], low + width * found.ci95[1]),
    )


def _ones(clusters: Mapping[int, list[float]]) -> dict[int, list[float]]:
    return {item: [1.0] * len(each) for item, each in clusters.items()}


def _means(
    measures: Mapping[str, Mapping[int, list[float]]], rules: MeasureRules
) -> dict[str, MeasureMean]:
    means = {
        name: mean_of_clusters(
            _winsorized(clusters) if name in rules.winsorized else clusters,
            None if name in rules.unbounded else (0.0, 1.0),
        )
        for name, clusters in measures.items()
        if name not in rules.parts
    }
    for name, factor in rules.products.items():
        if name in measures and factor in measures:
            means[name] = _product(
                measures[name], measures[factor], are_shares=name not in rules.unbounded
            )
    for name, pairs in rules.ratios.items():
        if all(part in measures for pair in pairs for part in pair):
            means[name] = _ratio(
                [(measures[top], measures[bottom]) for top, bottom in pairs],
                are_shares=name not in rules.unbounded,
            )
    return means


def _winsorized(clusters: Mapping[int, list[float]]) -> dict[int, list[float]]:
    """With every value within the 5th and 95th percentile of all, linearly interpolated."""
    values = [value for cluster in clusters.values() for value in cluster]
    if len(values) == 1:
        return dict(clusters)
    low, *_, high = quantiles(values, n=20, method="inclusive")
    return {
        item: [min(max(value, low), high) for value in cluster]
        for item, cluster in clusters.items()
    }


def _product(
    one: Mapping[int, list[float]], other: Mapping[int, list[float]], *, are_shares: bool
) -> MeasureMean:
    """The product of two means over the same answers, with its standard error by the delta method
    for clusters; ``are_shares`` says that values within 0 and 1 must be."""
    number = sum(map(len, one.values()))
    means = [
        math.fsum(value for each in part.values() for value in each) / number
        for part in (one, other)
    ]
    mean = means[0] * means[1]
    if len(one) == 1:
        return MeasureMean(mean, number, None, None)
    squares = 0.0
    for item, values in one.items():
        size = len(values)
        first = math.fsum(values) - means[0] * size
        second = math.fsum(other[item]) - means[1] * size
        squares += ((means[1] * first + means[0] * second) / number) ** 2
    are_shares = are_shares and _within([(one, _ones(one)), (other, _ones(other))])
    return _estimated(mean, squares, len(one), number, are_shares=are_shares)


_Pair = tuple[Mapping[int, list[float]], Mapping[int, list[float]]]


def _ratio(pairs: Sequence[_Pair], *, are_shares: bool) -> MeasureMean:
    """The mean of ratios of sums, with the standard error of ratios of cluster sums (W. G. Cochran,
    "Sampling Techniques", 1977). A ratio of nothing is left out. ``are_shares`` says that parts
    which are never above their whole must be."""
    first, _ = pairs[0]
    number = sum(map(len, first.values()))
    deviations = dict.fromkeys(first, 0.0)
    ratios: list[float] = []
    for tops, bottoms in pairs:
        total = math.fsum(value for each in bottoms.values() for value in each)
        if not total:
            continue
        ratio = math.fsum(value for each in tops.values() for value in each) / total
        ratios.append(ratio)
        for item, each in tops.items():
            deviations[item] += (math.fsum(each) - ratio * math.fsum(bottoms[item])) / total
    mean = math.fsum(ratios) / max(1, len(ratios))
    if len(first) == 1 or not ratios:
        return MeasureMean(mean, number, None, None)
    squares = math.fsum((each / len(ratios)) ** 2 for each in deviations.values())
    are_shares = are_shares and _within(pairs)
    return _estimated(mean, squares, len(first), number, are_shares=are_shares)


def _within(pairs: Sequence[_Pair]) -> bool:
    """Whether every part is within 0 and its whole."""
    return all(
        0 <= top <= bottom
        for tops, bottoms in pairs
        for item, each in tops.items()
        for top, bottom in zip(each, bottoms[item], strict=True)
    )


def _estimated(
    mean: float, squares: float, clusters: int, samples: int, *, are_shares: bool
) -> MeasureMean:
    """A mean with the squared deviations of its clusters, of which there are several."""
    stderr = math.sqrt(squares * clusters / (clusters - 1))
    if not are_shares:
        return MeasureMean(mean, samples, stderr, (mean - _Z95 * stderr, mean + _Z95 * stderr))
    mean = min(max(mean, 0.0), 1.0)  # rounding
    return MeasureMean(mean, samples, stderr, bounded_interval(mean, squares, clusters, samples))
