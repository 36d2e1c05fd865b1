"""Watches for running programs that become a crowd of processes, such as fork bombs."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from services.sandbox.isolation.cgroup import Cgroup

_CHECK_SECONDS = 1.0
_MAX_PROCESSES = 64
_OVERDUE_SECONDS = 1.0
_WEIGHT = 1 / 4


@dataclass
class Occupant:
    """A running program: its slot's process id, its start (monotonic), and its memory limit.

    One that ``yields`` leaves most of its processor time to others.
    """

    pid: int
    started_at: float
    memory_bytes: int
    yields: bool = False


class CrowdWatch:
    """Counts a program's processes and threads once a second.

    A crowd yields: it gets a fraction of another program's processor time. Its slot shares that
    with hundreds of processes and may enforce the time limit seconds late, so ``end`` is called
    when the program is overdue. Needs control groups.
    """

    def __init__(self, cgroup: Cgroup, seconds: float | None, end: Callable[[], None]) -> None:
        """``seconds`` is the time limit; None to wait for the slot's own answer."""
        self._cgroup = cgroup
        self._seconds = seconds
        self._end = end
        self._overdue_at = 0.0
        self._occupant: Occupant | None = None
        self._next_check: asyncio.TimerHandle | None = None

    def start(self, occupant: Occupant) -> None:
        """Start watching: the program is starting."""
        self._occupant = occupant
        if self._seconds is not None:
            now = asyncio.get_running_loop().time()
            self._overdue_at = now + self._seconds + _OVERDUE_SECONDS
        self._schedule_check()

    def stop(self) -> None:
        """Stop watching; any remaining processes no longer yield."""
        if self._next_check is not None:
            self._next_check.cancel()
        if self._occupant is not None and self._occupant.yields:
            with suppress(OSError):  # the group is being removed
                self._cgroup.set_cpu_weight(1.0)

    def _schedule_check(self) -> None:
        self._next_check = asyncio.get_running_loop().call_later(_CHECK_SECONDS, self._check)

    def _check(self) -> None:
        self._schedule_check()
        with suppress(OSError):  # the group is being removed
            if (self._cgroup.process_count() or 0) <= _MAX_PROCESSES:
                return
            if self._occupant is not None and not self._occupant.yields:
                self._cgroup.set_cpu_weight(_WEIGHT)
                self._occupant.yields = True
        if self._overdue_at and asyncio.get_running_loop().time() > self._overdue_at:
            self._end()
