"""Means of the numbers that a grader gives for each answer, by group and measure."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist, quantiles

LOWER_IS_BETTER = frozenset({"absolute_error", "levenshtein"})
WINSORIZED = frozenset({"improvement"})
"""Measures whose mean counts values beyond the 5th and 95th percentile as these."""

_Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class MeasureMean:
    """A mean over ``samples`` answers; one item alone shows no error, and no interval."""

    mean: float
    samples: int
    stderr: float | None
    ci95: tuple[float, float] | None


class Measures:
    """Averages numbers of answers in any order; items are clusters, as their answers are alike."""

    def __init__(self) -> None:
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
            group: {
                name: _mean(_winsorized(clusters) if name in WINSORIZED else clusters)
                for name, clusters in sorted(measures.items())
            }
            for group, measures in sorted(self._values.items())
        }


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


def _mean(clusters: Mapping[int, list[float]]) -> MeasureMean:
    """With the standard error of a ratio of cluster sums (W. G. Cochran, "Sampling Techniques",
    1977) and its normal interval."""
    number = sum(map(len, clusters.values()))
    mean = math.fsum(value for cluster in clusters.values() for value in cluster) / number
    if len(clusters) == 1:
        return MeasureMean(mean, number, None, None)
    squares = math.fsum((math.fsum(each) - mean * len(each)) ** 2 for each in clusters.values())
    stderr = math.sqrt(squares * len(clusters) / (len(clusters) - 1)) / number
    return MeasureMean(mean, number, stderr, (mean - _Z95 * stderr, mean + _Z95 * stderr))
