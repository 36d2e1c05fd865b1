"""Notices what the infrastructure costs a job: events for failing tools and for what is left out,
and an outage when it is most of the work."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from services.contracts.failures import PAUSE_SHARE, LeftOut
from services.contracts.rollouts.trajectories import CallOutcome, Trajectory
from services.core.process.outages import Outage, Outages
from services.core.process.reporter import Reporter

WINDOW = 64
"""Rollouts of which the share of lost ones is taken; they begin one after the other."""
FAILURES_TO_WARN = 8


class OutageWatch:
    """Follows the rollouts or samples of a job.

    Once ``pause_share`` of `WINDOW` rollouts that began one after the other were left out,
    ``outage`` is set and ``on_outage`` called. The order in which they end does not matter, since
    lost ones may end early, or last. Events count what is lost by source, at 1, 2, 4, 8, ...
    losses.
    """

    def __init__(
        self,
        job_dir: Path,
        reporter: Reporter,
        pause_share: float = PAUSE_SHARE,
        on_outage: Callable[[], None] = lambda: None,
    ) -> None:
        self.outage: Outage | None = None
        self._outages = Outages(job_dir)
        self._reporter = reporter
        self._pause_share = pause_share
        self._on_outage = on_outage
        self._begun = 0
        self._lost: Counter[int] = Counter()
        self._kept: Counter[int] = Counter()
        self._left_out: Counter[str] = Counter()
        self._unrewarded = 0

    def begin(self) -> int:
        """Note that a rollout begins; returns its window."""
        self._begun += 1
        return (self._begun - 1) // WINDOW

    def observe(self, trajectory: Trajectory, window: int) -> None:
        """Count a finished and scored rollout."""
        self.count(trajectory.left_out, window)
        failed = trajectory.finish_reason.is_failure or trajectory.left_out is not None
        if trajectory.reward_error is not None and not failed:
            self._unrewarded += 1
            if _is_power_of_two(self._unrewarded):
                text = f"{_rollouts(self._unrewarded)} got no reward so far"
                self._reporter.message(f"{text}; the last: {trajectory.reward_error}", "warn")

    def count(self, lost: LeftOut | None, window: int | None) -> None:
        """Count a rollout or sample; ``lost`` says why it is left out. Without a ``window`` it is
        reported, but no sign of an outage."""
        if lost is not None:
            self._report(lost)
        if window is None:
            return
        if lost is None or not lost.cause.is_outage:
            self._kept[window] += 1
            if self._kept[window] > (1 - self._pause_share) * WINDOW:
                self._outages.end()
        else:
            self._lost[window] += 1
            if self._lost[window] >= self._pause_share * WINDOW:
                cause = f"{lost.cause.value}: {lost.message}"
                number = self._lost[window]
                self.declare(f"{number} of {WINDOW} rollouts were lost; the last: {cause}")
        if self._lost[window] + self._kept[window] == WINDOW:
            del self._lost[window], self._kept[window]

    def declare(self, message: str) -> None:
        """Begin an outage."""
        if self.outage is None:
            self.outage = Outage(message)
            self._on_outage()

    def _report(self, lost: LeftOut) -> None:
        self._left_out[lost.source] += 1
        number = self._left_out[lost.source]
        if not _is_power_of_two(number):
            return
        text = f"{lost.source}: {_rollouts(number)} left out so far"
        data = {"source": lost.source, "cause": lost.cause.value, "left_out": number}
        message = f"{text}; the last: {lost.cause.value}: {lost.message}"
        self._reporter.message(message, "warn", **data)


class ToolMonitor:
    """Warns once when a tool has failed in `FAILURES_TO_WARN` consecutive calls."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._failures: Counter[str] = Counter()

    def observe(self, trajectory: Trajectory) -> None:
        """Count the calls of a finished rollout."""
        for call in (call for turn in trajectory.turns for call in turn.calls):
            if call.outcome is CallOutcome.ANSWERED:
                self._failures[call.name] = 0
            elif call.outcome.is_outage:
                self._failures[call.name] += 1
                if self._failures[call.name] == FAILURES_TO_WARN:
                    text = f"tool {call.name!r} failed in {FAILURES_TO_WARN} consecutive calls"
                    self._reporter.message(f"{text}; the last: {call.error}", "warn")


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _rollouts(number: int) -> str:
    return "1 rollout" if number == 1 else f"{number:,} rollouts"
