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
        self._counted_until = 0.0

    @contextmanager
    def during(self, phase: Phase) -> Iterator["Presence"]:
        """Count a rollout in this phase, or another that it changes to, for the duration of the
        block."""
        presence = Presence(self)
        presence.change(phase)
        try:
            yield presence
        finally:
            presence.end()

    def seconds(self) -> Mapping[Phase, float]:
        """The seconds of each phase so far; together at most the time that has passed."""
        self._count_time()
        return dict(self._seconds)

    def change(self, before: Phase | None, after: Phase | None) -> None:
        """A rollout is in the phase ``after`` from now on; None: in none."""
        self._count_time()
        if before is not None:
            self._active[before] -= 1
        if after is not None:
            self._active[after] += 1

    def _count_time(self) -> None:
        now = asyncio.get_running_loop().time()
        passed = now - self._counted_until
        if active := sum(self._active.values()):
            for phase, count in self._active.items():
                self._seconds[phase] += count * passed / active
        self._counted_until = now


class Presence:
    """A rollout in flight; made by `Activity.during`."""

    def __init__(self, activity: Activity) -> None:
        self._activity = activity
        self._phase: Phase | None = None
        self._ended = False

    def change(self, phase: Phase) -> None:
        """The rollout is in this phase from now on, unless it has ended."""
        if not self._ended:
            self._activity.change(self._phase, phase)
            self._phase = phase

    def end(self) -> None:
        """The rollout is no longer in flight."""
        self._activity.change(self._phase, None)
        self._phase, self._ended = None, True
