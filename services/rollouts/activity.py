"""What the rollouts in flight are doing, as shares of the wall-clock time."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum


class Phase(StrEnum):
    """What a rollout in flight is doing."""

    GENERATE = "generate"
    TOOLS = "tools"
    REWARD = "reward"


class Activity:
    """Attributes wall-clock time to the phases of rollouts: each moment is split equally among the
    rollouts in flight, and counts for no phase while there are none."""

    def __init__(self) -> None:
        self._active = dict.fromkeys(Phase, 0)
        self._seconds = dict.fromkeys(Phase, 0.0)
        self._busy = dict.fromkeys(Phase, 0.0)
        self._counted_until = 0.0

    @contextmanager
    def during(self, phase: Phase) -> Iterator[None]:
        """Count a rollout in this phase for the duration of the block."""
        self._count_time()
        self._active[phase] += 1
        try:
            yield
        finally:
            self._count_time()
            self._active[phase] -= 1

    def seconds(self) -> Mapping[Phase, float]:
        """The seconds of each phase so far; together at most the time that has passed."""
        self._count_time()
        return dict(self._seconds)

    def busy_seconds(self, phase: Phase) -> float:
        """The seconds so far in which at least one rollout was in this phase."""
        self._count_time()
        return self._busy[phase]

    def _count_time(self) -> None:
        now = asyncio.get_running_loop().time()
        passed = now - self._counted_until
        if active := sum(self._active.values()):
            for phase, count in self._active.items():
                self._seconds[phase] += count * passed / active
                self._busy[phase] += passed if count else 0.0
        self._counted_until = now
