"""What a job's processes use of its devices over time, and how much memory they may hold."""

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.core.process.supervised import tree_processes
from services.core.processors import usable_cores
from services.jobs.gpus import gpu_use

UTILIZATION = "utilization.jsonl"
SAMPLE_SECONDS = 5.0
MAX_SAMPLES = 2000
"""When the file has more, every second one is dropped, and samples are taken half as often."""

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class ProcessUse:
    """A process: its name, the processor time that it has used in seconds, and its resident memory
    in bytes."""

    name: str
    seconds: float
    resident: int


class UtilizationLog:
    """Appends samples to a job's `UTILIZATION`, one JSON object per line.

    ``cores`` is the mean number of cores in use since the sample before, of ``usable_cores``;
    ``memory_bytes`` is the resident memory of all processes, shared pages counted in each;
    ``busiest`` is the name of the process with the most processor time; ``gpus`` are the claim's
    GPUs with the percentage of the last second in which they computed, and their memory.
    """

    def __init__(
        self,
        job_dir: Path,
        tree: str,
        gpus: Sequence[str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = job_dir / UTILIZATION
        self._tree = tree
        self._gpus = gpus
        self._clock = clock
        self._seconds = SAMPLE_SECONDS
        self._sampled_at = clock()
        self._before: dict[int, ProcessUse] = {}
        self._count = len(_lines(self._path))

    def sample_if_due(self) -> None:
        """Take a sample, if the interval since the last one has passed."""
        elapsed = self._clock() - self._sampled_at
        if elapsed < self._seconds:
            return
        self._sampled_at += elapsed
        now = {pid: use for pid in tree_processes(self._tree) if (use := process_use(pid))}
        spent = {pid: use.seconds - self._spent_by(pid, use) for pid, use in now.items()}
        self._before = now
        sample = {
            "time": round(time.time(), 1),
            "cores": round(sum(spent.values()) / elapsed, 3),
            "usable_cores": usable_cores(),
            "memory_bytes": sum(use.resident for use in now.values()),
            "busiest": now[max(spent, key=spent.__getitem__)].name if spent else None,
            "gpus": [
                {"id": use.gpu, "percent": use.percent, "used": use.used, "total": use.total}
                for use in gpu_use(self._gpus)
            ],
        }
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps(sample)}\n")
        self._count += 1
        if self._count > MAX_SAMPLES:
            self._thin_out()

    def _spent_by(self, pid: int, use: ProcessUse) -> float:
        """The processor time of a process at the last sample; ids are used again."""
        before = self._before.get(pid)
        return before.seconds if before and before.seconds <= use.seconds else 0.0

    def _thin_out(self) -> None:
        kept = _lines(self._path)[::2]
        partial = self._path.with_suffix(".partial")
        partial.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        partial.replace(self._path)
        self._count = len(kept)
        self._seconds *= 2


def process_use(pid: int) -> ProcessUse | None:
    """What a process has used so far; None once it has ended."""
    try:
        found = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    name, _, rest = found.partition("(")[2].rpartition(")")
    fields = rest.split()  # from the third field of proc(5) on
    user, system, resident = int(fields[11]), int(fields[12]), int(fields[21])
    return ProcessUse(name, (user + system) / _TICKS, resident * _PAGE)


MEMORY_SHARE = 0.9
"""Fraction of the machine's memory; the rest is for the worker and the other services."""

CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Files with a container's own limit (cgroup v2 and v1)."""


def job_memory(gib: float | None, limits: tuple[Path, ...] = CGROUP_LIMITS) -> int:
    """The limit in bytes: ``gib`` if set, otherwise `MEMORY_SHARE` of this machine or container."""
    if gib is not None:
        return int(gib * 2**30)
    machine = _PAGE * os.sysconf("SC_PHYS_PAGES")
    containers = [limit for path in limits if (limit := _limit(path)) is not None]
    return int(min([machine, *containers]) * MEMORY_SHARE)


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
