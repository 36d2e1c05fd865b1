"""A job's metrics over its steps, thinned to as many points as a plot can show."""

import json
import math
import os
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, BinaryIO

import numpy as np
from fastapi import APIRouter, Query

from services.api.context import Gateway
from services.api.jobs.artifacts import open_artifact
from services.contracts.errors import AuthenticationFailed, NotFound
from services.contracts.jobs import Curve, Curves
from services.core.jobs.store import get_job
from services.core.process.reporter import METRICS
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors

router = APIRouter(
    prefix="/v1/jobs/{job_id}/metrics",
    tags=["jobs"],
    responses=documented_errors(AuthenticationFailed),
)

POINTS_OF_BUCKET = 4
MAX_LINE_BYTES = 1 << 16
KEPT_FILES = 4
KEPT_POINTS = 50_000
BLOCK = 5000  # records that are taken in at once
MAX_METRICS = 1000
MAX_STEP = 2**53
MAX_VALUE = sys.float_info.max
MAX_TIME = 2.0**40
_NOT_METRICS = frozenset({"step", "time"})

Points = Annotated[
    int, Query(ge=POINTS_OF_BUCKET, le=10_000, description="Most points of each metric.")
]


@router.get(
    "", summary="Show a job's metrics over its steps", responses=documented_errors(NotFound)
)
def curves(gateway: Gateway, _principal: Principal, job_id: str, points: Points = 1000) -> Curves:
    """The metrics that a job has reported so far, with the extremes of every stretch of steps."""
    with gateway.database.read() as session:
        get_job(session, job_id)
    try:
        path = open_artifact(gateway.artifacts.job(job_id), METRICS)
    except NotFound:  # nothing has been reported yet
        return Curves(metrics={})
    return _files.read(path, points)


class CurveFile:
    """The thinned metrics of a growing file; each `read` adds its new lines."""

    def __init__(self, path: Path, points: int) -> None:
        self._path = path
        self._points = points
        self._lock = Lock()
        self._inode = 0
        self._end = 0
        self._last = b""  # line before the end, by which a file that was replaced is noticed
        self._thinned: dict[str, ThinnedCurve] = {}

    @property
    def count(self) -> int:
        """The number of metrics."""
        return len(self._thinned)

    def read(self) -> Curves:
        """The curves as of now."""
        with self._lock, open(self._path, "rb") as file:
            if not self._goes_on(file):
                self._inode, self._end, self._last = os.fstat(file.fileno()).st_ino, 0, b""
                self._thinned = {}
            file.seek(self._end)
            while block := list(islice(self._records(file), BLOCK)):
                self._take_in(block)
            curves = {name: curve.result() for name, curve in sorted(self._thinned.items())}
        return Curves(metrics=curves)

    def _goes_on(self, file: BinaryIO) -> bool:
        """Whether the file is the one already read, unchanged or appended to."""
        if os.fstat(file.fileno()).st_ino != self._inode:
            return False
        file.seek(self._end - len(self._last))
        return file.read(len(self._last)) == self._last

    def _records(self, file: BinaryIO) -> Iterator["_Record"]:
        """The metrics of each readable line; a child may be writing the last one."""
        while line := file.readline(MAX_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                return
            self._end += len(line)
            self._last = line
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            step = record.get("step") if isinstance(record, dict) else None
            if type(step) is int and 0 <= step <= MAX_STEP:
                yield _Record(step, _time(record), _finite(record))

    def _take_in(self, block: Sequence["_Record"]) -> None:
        columns: dict[str, tuple[list[int], list[float], list[float]]] = {}
        for record in block:
            for name, value in record.values.items():
                if name not in columns:
                    columns[name] = [], [], []
                steps, column, times = columns[name]
                steps.append(record.step)
                column.append(value)
                times.append(record.time)
        for name, (steps, column, times) in columns.items():
            if name not in self._thinned:
                if len(self._thinned) == MAX_METRICS:
                    continue
                self._thinned[name] = ThinnedCurve(self._points)
            self._thinned[name].extend(steps, column, times)


class CurveFiles:
    """The most recently read files, so that reopening a long job does not reread it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._files: OrderedDict[tuple[Path, int], CurveFile] = OrderedDict()

    def read(self, path: Path, points: int) -> Curves:
        """The curves of a file as of now; raises `FileNotFoundError`."""
        key = path, points
        with self._lock:
            file = self._files.setdefault(key, CurveFile(path, points))
            self._files.move_to_end(key)
            if len(self._files) > KEPT_FILES:
                self._files.popitem(last=False)
        curves = file.read()
        if file.count * points > KEPT_POINTS:
            with self._lock:
                self._files.pop(key, None)
        return curves


_files = CurveFiles()


@dataclass(frozen=True, slots=True)
class _Record:
    """The metrics of a step, and when they were reported; NaN where that is unknown."""

    step: int
    time: float
    values: dict[str, float]


_Point = tuple[int, float, float]
"""A step, a value, and when it was reported."""


@dataclass(slots=True)
class _Bucket:
    """First, lowest, highest and last point of some steps."""

    first: _Point
    low: _Point
    high: _Point
    last: _Point

    def merge(self, other: "_Bucket") -> None:
        """Take in another bucket; of two points at one step the other's counts."""
        self.first = min(other.first, self.first, key=lambda point: point[0])
        self.low = min(other.low, self.low, key=lambda point: point[1])
        self.high = max(other.high, self.high, key=lambda point: point[1])
        self.last = max(other.last, self.last, key=lambda point: point[0])


class ThinnedCurve:
    """At most ``points`` points of a metric: M4, which draws the same line as all points at one
    bucket a pixel (U. Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation",
    PVLDB 7(10), 2014).

    A bucket's width in steps doubles whenever there are too many.
    """

    def __init__(self, points: int) -> None:
        self._most = points // POINTS_OF_BUCKET
        self._width = 1
        self._buckets: dict[int, _Bucket] = {}

    def extend(self, steps: Sequence[int], values: Sequence[float], times: Sequence[float]) -> None:
        """Take in points in the order in which they were reported; an unknown time is NaN."""
        # Of several values of a step the latest counts.
        order, at = np.unique(np.array(steps[::-1], np.int64), return_index=True)
        points = np.array(values[::-1], np.float64)[at]
        reported = np.array(times[::-1], np.float64)[at]
        while len(np.unique(order // self._width)) > self._most:
            self._widen()
        buckets, begins = np.unique(order // self._width, return_index=True)
        ends = [*begins[1:].tolist(), len(order)]
        for index, begin, end in zip(buckets.tolist(), begins.tolist(), ends, strict=True):
            part = points[begin:end]
            kept = (0, int(part.argmin()), int(part.argmax()), len(part) - 1)
            places = [begin + n for n in kept]
            bucket = ((int(order[n]), float(points[n]), float(reported[n])) for n in places)
            self._put(index, _Bucket(*bucket))
        while len(self._buckets) > self._most:
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
        """The kept points in the order of their steps."""
        kept: dict[int, _Point] = {}
        for bucket in self._buckets.values():
            # An earlier attempt's value of a step may be an extreme; the latest one counts.
            points = (bucket.low, bucket.high, bucket.first, bucket.last)
            kept |= {point[0]: point for point in points}
        steps = sorted(kept)
        return Curve(
            steps=steps,
            values=[kept[step][1] for step in steps],
            times=[_known(kept[step][2]) for step in steps],
        )


def _time(record: dict[str, Any]) -> float:
    time = record.get("time")
    if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time <= MAX_TIME:
        return math.nan
    return float(time)


def _known(time: float) -> float | None:
    return None if math.isnan(time) else round(time, 3)


def _finite(record: dict[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in record.items()
        if name not in _NOT_METRICS and type(value) in (int, float) and abs(value) <= MAX_VALUE
    }
