"""The load of running programs: which of them compute, and what memory and disk they leave.

Sampled only while there are more programs than are admitted unconditionally.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from services.sandbox.admission import SAMPLE_SECONDS, SETTLE_SECONDS
from services.sandbox.isolation.hierarchy import Controller, own_cgroups
from services.sandbox.pool.crowd import Occupant

_ASLEEP_SECONDS = 0.25
"""How long a program found asleep is not sampled again."""
_MAX_PROCESSES = 64
"""A program with more processes counts as computing."""
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STATE, _THREADS, _PAGES = 0, 17, 21
"""Positions in /proc/PID/stat, behind the name."""


class ProgramActivity(NamedTuple):
    """Whether any thread of a program is runnable, and the memory it uses."""

    computes: bool
    resident_bytes: int


class _Sample(NamedTuple):
    """``busy`` programs compete for processors; ``free_bytes`` of memory remain beyond what they
    may still allocate; ``young`` are the memory limits of those too recent to judge."""

    busy: int
    free_bytes: int
    young: Sequence[int] = ()


class ProgramLoad:
    """What the programs of a pool use; a `Load`.

    ``occupants`` are the running ones. ``free_memory`` returns the bytes left, ``free_disk`` those
    of the disk they share, if any, of which each may use ``disk_bytes``.
    """

    def __init__(
        self,
        occupants: Callable[[], Iterable[Occupant]],
        free_memory: Callable[[], int],
        free_disk: Callable[[], int] | None = None,
        disk_bytes: int = 0,
    ) -> None:
        self._occupants = occupants
        self._free_memory = free_memory
        self._free_disk = free_disk
        self._disk_bytes = disk_bytes
        self._asleep_until: dict[int, float] = {}
        self._sample = _Sample(0, 0)
        self._sampled_at = 0.0

    def has_room(self, memory_bytes: int, recent: Sequence[int], max_busy: int) -> bool:
        """Whether one more program fits, with everything that computing ones may still need.

        A sleeping program counts with its current usage only; one that yields frees its processor.
        """
        if len(recent) >= max_busy:
            return False
        now = time.monotonic()
        if now - self._sampled_at >= SAMPLE_SECONDS:
            self._sample, self._sampled_at = self._take_sample(now), now
        # Not a sum: most young programs are recent ones, though a busy machine starts them later.
        young = self._sample.young
        busy = self._sample.busy + max(len(recent), len(young))
        taken = max(sum(recent), sum(young))
        if busy >= max_busy or self._sample.free_bytes < memory_bytes + taken:
            return False
        return self._free_disk is None or self._free_disk() >= (busy + 1) * self._disk_bytes

    def _take_sample(self, now: float) -> _Sample:
        busy, free_bytes = 0, self._free_memory()
        asleep: dict[int, float] = {}
        young: list[int] = []
        for occupant in self._occupants():
            if now - occupant.started_at < SETTLE_SECONDS:
                young.append(occupant.memory_bytes)
                continue
            if self._asleep_until.get(occupant.pid, 0.0) > now:
                asleep[occupant.pid] = self._asleep_until[occupant.pid]
                continue
            if occupant.yields:  # among hundreds of processes, some always compute
                free_bytes -= occupant.memory_bytes
                continue
            computes, resident = activity(occupant.pid)
            if computes:
                busy += 1
                free_bytes -= max(0, occupant.memory_bytes - resident)
            else:
                asleep[occupant.pid] = now + _ASLEEP_SECONDS
        self._asleep_until = asleep
        return _Sample(busy, free_bytes, young)


def free_bytes(folder: Path) -> int:
    """Bytes left on the file system of a folder."""
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize


def activity(slot: int) -> ProgramActivity:
    """Activity of the programs below a slot's process; unreadable ones count as computing."""
    try:
        pending = _children(slot, slot)
    except OSError:
        return ProgramActivity(True, 0)
    seen, resident = 0, 0
    while pending:
        pid = pending.pop()
        seen += 1
        with suppress(OSError):  # it has ended
            fields = _stat(f"/proc/{pid}/stat")
            resident += int(fields[_PAGES]) * _PAGE
            threads = [pid] if fields[_THREADS] == b"1" else _threads(pid)
            if seen > _MAX_PROCESSES or _computes(pid, threads):
                return ProgramActivity(True, resident)
            for thread in threads:
                pending += _children(pid, thread)
    return ProgramActivity(False, resident)


def _computes(pid: int, threads: list[int]) -> bool:
    return any(_stat(f"/proc/{pid}/task/{thread}/stat")[_STATE] == b"R" for thread in threads)


def _stat(path: str) -> list[bytes]:
    """The fields of a stat file that follow the command name."""
    return _read(path).rpartition(b")")[2].split()


def _threads(pid: int) -> list[int]:
    return [int(name) for name in os.listdir(f"/proc/{pid}/task")]  # noqa: PTH208 - names


def _children(pid: int, thread: int) -> list[int]:
    return [int(child) for child in _read(f"/proc/{pid}/task/{thread}/children").split()]


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:
        return file.read()


_MEMORY = Path("/proc/meminfo")
_KIBIBYTE = 1024


class FreeMemory:
    """Memory that programs can still allocate; ``groups`` are folders with a memory controller."""

    def __init__(self, groups: list[Path], machine: Path = _MEMORY) -> None:
        self._groups = groups
        self._machine = machine

    def __call__(self) -> int:
        """Bytes left at the tightest limit; memory the kernel can reclaim counts as free."""
        lines = self._machine.read_bytes().splitlines()
        available = _field(lines, b"MemAvailable:") * _KIBIBYTE
        return min([available, *self._left_in_groups()])

    def _left_in_groups(self) -> Iterator[int]:
        for folder in self._groups:
            for limit, usage, reclaimable in (
                ("memory.max", "memory.current", b"inactive_file"),
                ("memory.limit_in_bytes", "memory.usage_in_bytes", b"total_inactive_file"),
            ):
                try:
                    bound = (folder / limit).read_bytes().strip()
                    used = int((folder / usage).read_bytes())
                    statistics = (folder / "memory.stat").read_bytes().splitlines()
                except OSError:
                    continue
                if bound != b"max":
                    yield int(bound) - used + _field(statistics, reclaimable)


def memory_groups() -> list[Path]:
    """The memory control groups of this process: its own and their ancestors."""
    return [
        folder
        for location in own_cgroups()
        if Controller.MEMORY in location.controllers
        for folder in (location.folder, *location.folder.parents)
        if (folder / "memory.stat").exists()
    ]


def _field(lines: list[bytes], name: bytes) -> int:
    return next((int(line.split()[1]) for line in lines if line.split()[:1] == [name]), 0)
