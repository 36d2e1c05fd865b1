"""Means of the numbers that a grader gives for each answer, by group and measure."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist

LOWER_IS_BETTER = frozenset({"absolute_error"})

_Z95 = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class MeasureMean:
    """A mean over ``samples`` answers; one item alone shows no error, and no interval."""

    mean: float
    samples: int
    stderr: float | None
    ci95: tuple[float, float] | None


class Measures:
    """Sums numbers of answers in any order; items are clusters, since their answers are alike."""

    def __init__(self) -> None:
        self._sums: dict[str, dict[str, dict[int, tuple[float, int]]]] = defaultdict(
            lambda: defaultdict(dict)
        )

    def add(self, group: str, item: int, measures: Mapping[str, float]) -> None:
        """Count the numbers of one answer."""
        for name, value in measures.items():
            clusters = self._sums[group][name]
            total, size = clusters.get(item, (0.0, 0))
            clusters[item] = total + value, size + 1

    def means(self) -> dict[str, dict[str, MeasureMean]]:
        """By group and measure, both in order of their names."""
        return {
            group: {name: _mean(clusters) for name, clusters in sorted(measures.items())}
            for group, measures in sorted(self._sums.items())
        }


def _mean(clusters: Mapping[int, tuple[float, int]]) -> MeasureMean:
    """With the standard error of a ratio of cluster sums (W. G. Cochran, "Sampling Techniques",
    1977) and its normal interval."""
    number = sum(size for _, size in clusters.values())
    mean = math.fsum(total for total, _ in clusters.values()) / number
    if len(clusters) == 1:
        return MeasureMean(mean, number, None, None)
    squares = math.fsum((total - mean * size) ** 2 for total, size in clusters.values())
    stderr = math.sqrt(squares * len(clusters) / (len(clusters) - 1)) / number
    return MeasureMean(mean, number, stderr, (mean - _Z95 * stderr, mean + _Z95 * stderr))
