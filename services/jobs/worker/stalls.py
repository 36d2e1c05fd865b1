"""Notices a child that makes no progress, and where it hangs."""

import math
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from services.core.process.reporter import METRICS, REPORTS
from services.core.process.supervised import tree_processes
from services.jobs.gpus import GpuUse, gpu_use
from services.jobs.worker.reports import (
    CheckpointReport,
    MetricsReport,
    PhaseReport,
    ProgressReport,
    Report,
)
from services.jobs.worker.stacks import ProcessStack, read_stacks
from services.jobs.worker.utilization import UTILIZATION

LOG = "log.txt"
STACKS = ".stacks.txt"
SCAN_SECONDS = 10.0
TRACKERS = (".tracking", "tensorboard")
"""Folders that trackers write, also where a child only repeats its reports."""
MAX_ENTRIES = 20_000
"""Files that one scan looks at."""
PACE = 10.0
"""A child hangs when it is silent for this many times its longest silence."""
SHOWN_PROCESSES = 8
COMPUTING_PERCENT = 10
"""A GPU computes from this share of the time on."""
COMPUTING_SECONDS = 30.0
"""A GPU that computed within this time still counts as computing: many pause between kernels."""


@dataclass(frozen=True)
class StallLimits:
    """Bounds, in seconds, of the silence after which a child counts as hung."""

    least: float
    most: float


class ProgressWatch:
    """Learns the pace of a child, and tells when it is silent for too long.

    Progress is a new phase, another step, a checkpoint, or a change of a file below the job's
    folder, such as rows, trajectories, weights, or the count of an engine's tokens. Reports that
    repeat a step are none: a child may repeat them while it hangs. Logs count until the first
    step, while a child imports and loads. A validation writes nothing until it ends: what the
    processes of ``reading_tree`` read is progress too. While one of ``gpus`` computes, a child may
    be silent for as long as any may: a long step is not a hang, but computing is not progress,
    since a collective whose partner is gone computes forever.
    """

    def __init__(
        self,
        job_dir: Path,
        limits: StallLimits,
        clock: Callable[[], float] = time.monotonic,
        reading_tree: str | None = None,
        gpus: Sequence[str] = (),
    ) -> None:
        self._dir = job_dir
        self._limits = limits
        self._clock = clock
        self._advanced_at = clock()
        self._scanned_at = clock()
        self._reading_tree = reading_tree
        self._gpus = gpus
        self._computed_at = -math.inf
        self._longest = 0.0
        self._steps: dict[type, object] = {}
        self._stepped = False
        self._files = self._signature()

    @property
    def bound(self) -> float:
        """Seconds of silence after which the child counts as hung."""
        if self._clock() - self._computed_at <= COMPUTING_SECONDS:
            return self._limits.most
        return min(max(self._limits.least, PACE * self._longest), self._limits.most)

    def note(self, reports: Sequence[Report]) -> None:
        """Take new reports of the child into account."""
        for report in reports:
            match report:
                case PhaseReport():
                    seen: object = report.phase
                case ProgressReport():
                    seen = report.step, report.total_steps
                    self._stepped = self._stepped or report.step > 0
                case MetricsReport():
                    seen = report.step
                    self._stepped = True
                case CheckpointReport():
                    seen = report.step, report.path
                case _:
                    continue
            if self._steps.get(type(report)) != seen:
                self._steps[type(report)] = seen
                self._advance()

    def silent_for(self) -> float | None:
        """Seconds without progress, once they exceed the bound; scans files now and then."""
        now = self._clock()
        if now - self._scanned_at >= min(SCAN_SECONDS, self._limits.least / 4):
            self._scanned_at = now
            if any(use.percent >= COMPUTING_PERCENT for use in gpu_use(self._gpus)):
                self._computed_at = now
            if (files := self._signature()) != self._files:
                self._files = files
                self._advance()
        silence = now - self._advanced_at
        return silence if silence > self.bound else None

    def _advance(self) -> None:
        now = self._clock()
        self._longest = max(self._longest, now - self._advanced_at)
        self._advanced_at = now

    def _signature(self) -> tuple[int, int, int]:
        """Number, bytes and latest change of the files that show progress."""
        number = latest = 0
        size = _bytes_read(self._reading_tree) if self._reading_tree else 0
        for status in _files(self._dir, logs=not self._stepped):
            number += 1
            size += status.st_size
            latest = max(latest, status.st_mtime_ns)
        return number, size, latest


def _bytes_read(tree: str) -> int:
    """Bytes that the processes of a tree have read from files and sockets."""
    total = 0
    for pid in tree_processes(tree):
        with suppress(OSError, ValueError):
            total += int(Path(f"/proc/{pid}/io").read_text().split(maxsplit=2)[1])
    return total


def _files(folder: Path, logs: bool) -> Iterator[os.stat_result]:
    pending = [folder]
    seen = 0
    while pending and seen < MAX_ENTRIES:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:  # removed meanwhile
            continue
        seen += len(entries)
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False) and entry.name not in TRACKERS:
                    pending.append(Path(entry.path))
                    continue
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            is_log = entry.name.endswith(".log") or entry.name == LOG
            ignored = entry.name in (REPORTS, METRICS, STACKS, UTILIZATION) or (is_log and not logs)
            if stat.S_ISREG(status.st_mode) and not ignored:
                yield status


@dataclass(frozen=True)
class Stall:
    """A child that hangs: for how long, where, and what its GPUs do meanwhile."""

    seconds: float
    bound: float
    stacks: list[ProcessStack]
    gpus: Sequence[GpuUse] = ()

    @property
    def message(self) -> str:
        """One line for the user."""
        return (
            f"the process made no progress for {_duration(self.seconds)} "
            f"(bound: {_duration(self.bound)})"
        )

    @property
    def places(self) -> list[str]:
        """Where each process is, as ``PID COMMAND: FILE:LINE FUNCTION < ...``."""
        placed = [stack for stack in self.stacks if stack.place][:SHOWN_PROCESSES]
        return [f"{stack.pid} {stack.command[:80]}: {stack.place}" for stack in placed]


def look_into(
    tree: str, job_dir: Path, seconds: float, bound: float, gpus: Sequence[str] = ()
) -> Stall:
    """Collect the stacks of a child that hangs and the use of its GPUs; append them to its log."""
    uses = gpu_use(gpus)
    stall = Stall(seconds, bound, read_stacks(tree, job_dir / STACKS), uses)
    parts = [f"[{stall.message}; the stacks of its processes follow]"]
    parts += [f"[{use}]" for use in uses]
    parts += [f"[process {stack.pid}: {stack.command}]\n{stack.text}" for stack in stall.stacks]
    descriptor = os.open(
        job_dir / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600
    )
    with open(descriptor, "ab") as log:
        log.write("\n".join([*parts, ""]).encode(errors="replace"))
    return stall


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
