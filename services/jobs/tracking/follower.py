"""Reads the reports of a job for a tracker, from where its last process ended.

Only the standard library is imported here, because the tracking runtime imports this module.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from services.core.process.reporter import REPORTS
from services.jobs.tracking.tracker import Trace

MAX_BATCH_BYTES = 1 << 20
MAX_METRICS = 5000
"""Metrics by name that a tracker receives; further names are dropped."""

TRAJECTORIES = "trajectories.jsonl"
TRACES_PER_STEP = 8
MAX_TRACE_BYTES = 4 << 20
MAX_TEXT = 4000


@dataclass(frozen=True)
class StepMetrics:
    """Metrics of a step, as one report has them; ``time`` is in seconds of the epoch."""

    step: int
    time: float
    metrics: dict[str, float]


@dataclass
class DeliveredPosition:
    """What was delivered to a tracker: bytes of both files, the last step of each metric by phase,
    and what the tracker itself saved."""

    reports: int = 0
    trajectories: int = 0
    phase: str = ""
    steps: dict[str, dict[str, int]] = field(default_factory=dict)
    saved: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> "DeliveredPosition":
        """The stored position; the beginning without a file."""
        return cls(**json.loads(path.read_bytes())) if path.exists() else cls()

    def save(self, path: Path) -> None:
        """Store it atomically."""
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self)))
        partial.replace(path)


class FolderFollower:
    """Follows a job's folder, advancing ``position``.

    A resumed training repeats the steps after its checkpoint: of each metric the steps that were
    delivered before in the same phase are left out.
    """

    def __init__(self, job_dir: Path, position: DeliveredPosition) -> None:
        self.position = position
        self._reports = job_dir / REPORTS
        self._trajectories = job_dir / TRAJECTORIES

    def read(self) -> list[StepMetrics] | None:
        """The metrics of the next complete lines; None when there are no new lines."""
        batch = self._next_lines()
        if not batch:
            return None
        found = (self._metrics(line) for line in batch.split(b"\n"))
        return [each for each in found if each is not None and each.metrics]

    def traces(self) -> list[Trace]:
        """The first samples that were recorded since the last call; the others are skipped."""
        begin, position = self.position.trajectories, self.position
        try:
            with open(self._trajectories, "rb") as file:
                size = os.fstat(file.fileno()).st_size
                begin = begin if begin <= size else 0
                file.seek(max(0, begin - 1))
                if begin and file.read(1) != b"\n":
                    file.readline(MAX_TRACE_BYTES)  # the rest of a line that was incomplete
                lines = file.read(min(MAX_TRACE_BYTES, max(0, size - file.tell())))
        except FileNotFoundError:
            return []
        position.trajectories = size
        complete = lines.split(b"\n")[:-1][:TRACES_PER_STEP]
        return [trace for line in complete for trace in _traces(line)]

    def _next_lines(self) -> bytes:
        position = self.position
        try:
            with open(self._reports, "rb") as file:
                if os.fstat(file.fileno()).st_size < position.reports:
                    position.reports = 0
                file.seek(position.reports)
                batch = file.read(MAX_BATCH_BYTES)
        except FileNotFoundError:
            return b""
        complete = batch[: batch.rfind(b"\n") + 1]
        if not complete and len(batch) == MAX_BATCH_BYTES:
            complete = batch  # an overlong line
        position.reports += len(complete)
        return complete

    def _metrics(self, line: bytes) -> StepMetrics | None:
        try:
            report = json.loads(line)
            if report["type"] == "phase":
                self.position.phase = str(report["phase"])[:64]
            if report["type"] != "metrics":
                return None
            step, time = int(report["step"]), float(report["time"])
            values = {str(name): float(value) for name, value in _numbers(report["metrics"])}
        except (ValueError, TypeError, KeyError, AttributeError):
            return None  # unreadable: the worker warns of it
        return StepMetrics(step, time, {name: values[name] for name in self._new(step, values)})

    def _new(self, step: int, values: dict[str, float]) -> list[str]:
        """The metrics that were not delivered at this step or a later one of the phase."""
        last = self.position.steps.setdefault(self.position.phase, {})
        new = [name for name in values if step > last.get(name, -1)]
        known = [name for name in new if name in last or len(last) < MAX_METRICS]
        last.update(dict.fromkeys(known, step))
        return known


def _numbers(metrics: dict[str, Any]) -> Iterator[tuple[str, float]]:
    return ((name, value) for name, value in metrics.items() if isinstance(value, int | float))


def _traces(line: bytes) -> Iterator[Trace]:
    """A trajectory as a trace; nothing if it cannot be read."""
    try:
        record = json.loads(line)
        asked = [str(message.get("content")) for message in record["messages"]]
        said = [str(turn["text"]) for turn in record["turns"]]
        reward = record.get("reward")
        yield Trace(
            prompt=asked[-1][:MAX_TEXT] if asked else "",
            response="\n".join(said)[:MAX_TEXT],
            reward=None if reward is None else float(reward),
            details={name: str(record.get(name)) for name in ("id", "finish_reason")},
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return
