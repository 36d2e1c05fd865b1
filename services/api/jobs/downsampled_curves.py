"""Curves downsampled to as many points as a plot can show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from services.api.jobs.step_set import StepSet
from services.contracts.jobs import POINTS_PER_BUCKET, Curve, Curves

MAX_METRICS = 1000


@dataclass(frozen=True, slots=True)
class Record:
    """The metrics of a step, NaN where one was not finite, and when they were reported; NaN where
    that is unknown."""

    step: int
    time: float
    values: Mapping[str, float]


class DownsampledCurves:
    """At most ``points`` points of each of `MAX_METRICS` metrics."""

    def __init__(self, points: int) -> None:
        self._points = points
        self._curves: dict[str, DownsampledCurve] = {}

    def __len__(self) -> int:
        """The number of metrics."""
        return len(self._curves)

    def add(self, records: Sequence[Record]) -> None:
        """Add records in the order in which they were reported."""
        columns: dict[str, tuple[list[int], list[float], list[float]]] = {}
        for record in records:
            for name, value in record.values.items():
                if name not in columns:
                    columns[name] = [], [], []
                steps, column, times = columns[name]
                steps.append(record.step)
                column.append(value)
                times.append(record.time)
        for name, (steps, column, times) in columns.items():
            if name not in self._curves:
                if len(self._curves) == MAX_METRICS:
                    continue
                self._curves[name] = DownsampledCurve(self._points)
            self._curves[name].extend(steps, column, times)

    def result(self) -> Curves:
        """The curves by name."""
        curves = sorted(self._curves.items())
        return Curves(
            metrics={name: curve.result() for name, curve in curves},
            complete=all(curve.is_complete for _, curve in curves),
        )


_Point = tuple[int, float, float]
"""A step, a value, and when it was reported."""


@dataclass(slots=True)
class _Bucket:
    """First, lowest, highest and last point of some steps, and the mean of what they reported."""

    first: _Point
    low: _Point
    high: _Point
    last: _Point
    mean: float
    reports: int

    def merge(self, other: "_Bucket") -> None:
        """Merge another bucket, which wins ties."""
        self.first = min(other.first, self.first, key=lambda point: point[0])
        self.low = min(other.low, self.low, key=lambda point: point[1])
        self.high = max(other.high, self.high, key=lambda point: point[1])
        self.last = max(other.last, self.last, key=lambda point: point[0])
        both = self.reports + other.reports
        # Weighted before they are added, as the sum of large values has no bounds.
        self.mean = self.mean * (self.reports / both) + other.mean * (other.reports / both)
        self.reports = both

    @property
    def steps(self) -> int:
        """The number of steps; one that was reported again counts once unless others are
        missing."""
        return min(self.reports, self.last[0] - self.first[0] + 1)


class DownsampledCurve:
    """At most ``points`` points of a metric: M4, which draws the same line as all points at one
    bucket a pixel (U. Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation",
    PVLDB 7(10), 2014), and the means between them, since no mean is that of extremes.

    A bucket's width in steps doubles whenever there are too many.
    """

    def __init__(self, points: int) -> None:
        self._max_buckets = points // POINTS_PER_BUCKET
        self._width = 1
        self._buckets: dict[int, _Bucket] = {}
        self._nonfinite = StepSet()

    @property
    def is_complete(self) -> bool:
        """Whether no step was left out."""
        return self._width == 1

    def extend(self, steps: Sequence[int], values: Sequence[float], times: Sequence[float]) -> None:
        """Add points in the order in which they were reported; a value that is not finite and an
        unknown time are NaN."""
        # The latest value of a step wins.
        order, at = np.unique(np.array(steps[::-1], np.int64), return_index=True)
        points = np.array(values[::-1], np.float64)[at]
        reported = np.array(times[::-1], np.float64)[at]
        is_finite = np.isfinite(points)
        self._nonfinite.discard(order[is_finite].tolist())  # reported again, with a finite value
        self._nonfinite.add(order[~is_finite].tolist())
        while len(self._nonfinite.firsts(self._width)) > self._max_buckets:
            self._widen()
        if not is_finite.any():
            return
        order, points, reported = order[is_finite], points[is_finite], reported[is_finite]
        while len(np.unique(order // self._width)) > self._max_buckets:
            self._widen()
        buckets, begins = np.unique(order // self._width, return_index=True)
        ends = [*begins[1:].tolist(), len(order)]
        for index, begin, end in zip(buckets.tolist(), begins.tolist(), ends, strict=True):
            part = points[begin:end]
            chosen = (0, int(part.argmin()), int(part.argmax()), len(part) - 1)
            indices = [begin + n for n in chosen]
            first, low, high, last = (
                (int(order[n]), float(points[n]), float(reported[n])) for n in indices
            )
            mean = float((part / len(part)).sum())
            self._put(index, _Bucket(first, low, high, last, mean, len(part)))
        while len(self._buckets) > self._max_buckets:
            self._widen()

    def _widen(self) -> None:
        self._width *= 2
        buckets, self._buckets = self._buckets, {}
        for index, bucket in buckets.items():
            self._put(index // 2, bucket)

    def _put(self, index: int, bucket: _Bucket) -> None:
        if index in self._buckets:
            self._buckets[index].merge(bucket)
        else:
            self._buckets[index] = bucket

    def result(self) -> Curve:
        """The points in the order of their steps."""
        by_step: dict[int, _Point] = {}
        for bucket in self._buckets.values():
            # An extreme may be an earlier attempt's value of its step; the latest value wins.
            points = (bucket.low, bucket.high, bucket.first, bucket.last)
            by_step |= {point[0]: point for point in points}
        steps = sorted(step for step in by_step if step not in self._nonfinite)
        between = [] if self.is_complete else [self._buckets[at] for at in sorted(self._buckets)]
        return Curve(
            steps=steps,
            values=[by_step[step][1] for step in steps],
            times=[_known(by_step[step][2]) for step in steps],
            nonfinite_steps=self._nonfinite.firsts(self._width),
            nonfinite_count=len(self._nonfinite),
            interval_ends=[bucket.last[0] for bucket in between],
            interval_means=[bucket.mean for bucket in between],
            interval_counts=[bucket.steps for bucket in between],
        )


def _known(time: float) -> float | None:
    return None if math.isnan(time) else round(time, 3)
