"""The metrics of jobs' files, downsampled to as many points as a plot can show."""

import math
import os
import re
import sys
from collections import OrderedDict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from pydantic_core import from_json

from services.api.jobs.downsampled_curves import DownsampledCurves, Record
from services.contracts.jobs import MAX_STEP, Curves

MAX_LINE_BYTES = 1 << 16
MAX_CACHED_FILES = 4
MAX_CACHED_POINTS = 50_000
BATCH = 5000  # records added per call
MAX_VALUE = sys.float_info.max
MAX_TIME = 2.0**40
_NOT_METRICS = frozenset({"step", "time"})
_STEP = re.compile(rb'"step"\s*:\s*(\d{1,17})')


class CurveFile:
    """The downsampled metrics of a growing file; each `read` adds its new lines."""

    def __init__(self, path: Path, points: int) -> None:
        self._path = path
        self._points = points
        self._lock = Lock()
        self._inode = 0
        self._end = 0
        self._last = b""  # the last line read; it detects a replaced file
        self._curves = DownsampledCurves(points)

    def __len__(self) -> int:
        """The number of metrics."""
        return len(self._curves)

    def read(self) -> Curves:
        """The curves as of now."""
        with self._lock, open(self._path, "rb") as file:
            if not self._is_continuation(file):
                self._inode, self._end, self._last = os.fstat(file.fileno()).st_ino, 0, b""
                self._curves = DownsampledCurves(self._points)
            file.seek(self._end)
            while batch := list(islice(self._records(file), BATCH)):
                self._curves.add(batch)
            return self._curves.result()

    def _is_continuation(self, file: BinaryIO) -> bool:
        """Whether the file is the one already read, unchanged or appended to."""
        if os.fstat(file.fileno()).st_ino != self._inode:
            return False
        file.seek(self._end - len(self._last))
        return file.read(len(self._last)) == self._last

    def _records(self, file: BinaryIO) -> Iterator[Record]:
        """The metrics of each readable line; a child may be writing the last one."""
        while line := file.readline(MAX_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
                return
            self._end += len(line)
            self._last = line
            if (record := _record(line)) is not None:
                yield record


class CurveFiles:
    """An LRU cache of files, so that reopening a long job does not reread it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._files: OrderedDict[tuple[Path, int], CurveFile] = OrderedDict()

    def read(self, path: Path, points: int) -> Curves:
        """The curves of a file as of now; raises `FileNotFoundError`."""
        key = path, points
        with self._lock:
            file = self._files.setdefault(key, CurveFile(path, points))
            self._files.move_to_end(key)
            if len(self._files) > MAX_CACHED_FILES:
                self._files.popitem(last=False)
        curves = file.read()
        if len(file) * points > MAX_CACHED_POINTS:
            with self._lock:
                self._files.pop(key, None)
        return curves


CACHE = CurveFiles()


def read_range(path: Path, points: int, steps: range) -> Curves:
    """The downsampled metrics of these steps of a file; raises `FileNotFoundError`."""
    curves = DownsampledCurves(points)
    with open(path, "rb") as file:
        records = _records_of(file, steps)
        while batch := list(islice(records, BATCH)):
            curves.add(batch)
    return curves.result()


def _records_of(file: BinaryIO, steps: range) -> Iterator[Record]:
    """The metrics of these steps; the other lines are not parsed."""
    while line := file.readline(MAX_LINE_BYTES):
        found = _STEP.search(line)
        if found is None or int(found[1]) not in steps:
            continue
        record = _record(line)
        if record is not None and record.step in steps:
            yield record


def _record(line: bytes) -> Record | None:
    """The metrics of a line; None if it is not readable."""
    try:
        record = from_json(line)  # several times as fast as `json.loads`
    except ValueError:
        return None
    step = record.get("step") if isinstance(record, dict) else None
    if type(step) is not int or not 0 <= step <= MAX_STEP:
        return None
    return Record(step, _time(record), _values(record))


def _time(record: dict[str, Any]) -> float:
    time = record.get("time")
    if isinstance(time, bool) or not isinstance(time, int | float) or not 0 <= time <= MAX_TIME:
        return math.nan
    return float(time)


def _values(record: dict[str, Any]) -> dict[str, float]:
    """The values by name; NaN for those that are not finite, which reports write as null."""
    found: dict[str, float] = {}
    for name, value in record.items():
        if name in _NOT_METRICS:
            continue
        if value is None:
            found[name] = math.nan
        elif type(value) in (int, float):
            found[name] = float(value) if abs(value) <= MAX_VALUE else math.nan
    return found
