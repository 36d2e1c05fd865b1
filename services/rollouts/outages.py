"""Notices what the infrastructure costs a job: events for what is left out, and an outage when it
is most of the work."""

from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from services.contracts.infrastructure import PAUSE_SHARE, LeftOut
from services.contracts.trajectories import Trajectory
from services.core.process.outages import Outage, Outages
from services.core.process.reporter import Reporter

WINDOW = 64
"""Rollouts over which the share of lost ones is taken."""


class OutageWatch:
    """Follows the rollouts or samples of a job.

    Once ``pause_share`` of the last `WINDOW` were left out, ``outage`` is set and ``on_outage``
    called. Events count what is lost by source, at 1, 2, 4, 8, ... losses.
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
        self._window: deque[bool] = deque(maxlen=WINDOW)
        self._left_out: Counter[str] = Counter()
        self._last = ""
        self._unrewarded = 0

    def observe(self, trajectory: Trajectory) -> None:
        """Count a finished and scored rollout."""
        self.count(trajectory.left_out)
        failed = trajectory.finish_reason.is_failure or trajectory.left_out is not None
        if trajectory.reward_error is not None and not failed:
            self._unrewarded += 1
            if _is_power_of_two(self._unrewarded):
                text = f"{_rollouts(self._unrewarded)} got no reward so far"
                self._reporter.message(f"{text}; the last: {trajectory.reward_error}", "warn")

    def count(self, lost: LeftOut | None, *, is_watched: bool = True) -> None:
        """Count a rollout or sample; ``lost`` says why it is left out. One that is not watched
        gives events only."""
        if lost is not None:
            self._last = f"the last: {lost.cause.value}: {lost.message}"
            self._left_out[lost.source] += 1
            number = self._left_out[lost.source]
            if _is_power_of_two(number):
                text = f"{lost.source}: {_rollouts(number)} left out so far"
                data = {"source": lost.source, "cause": lost.cause.value, "left_out": number}
                self._reporter.message(f"{text}; {self._last}", "warn", **data)
        if not is_watched:
            return
        self._window.append(lost is not None and lost.cause.is_outage)
        if len(self._window) < WINDOW or self.outage is not None:
            return
        if sum(self._window) < self._pause_share * WINDOW:
            self._outages.end()
            return
        self.declare(f"{sum(self._window)} of the last {WINDOW} rollouts were lost; {self._last}")

    def declare(self, message: str) -> None:
        """Begin an outage."""
        if self.outage is None:
            self.outage = Outage(message)
            self._on_outage()


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def _rollouts(number: int) -> str:
    return "1 rollout" if number == 1 else f"{number:,} rollouts"
