"""Telling the worker how far the rollouts have come."""

import asyncio
import time

from services.common.process.reporter import Reporter
from services.evaluator.rollout.tally import Tally

PROGRESS_SECONDS = 0.25
METRICS_SECONDS = 3.0


class RolloutProgress:
    """Reports the progress of one attempt and keeps the clock of the tally.

    Rates are those of this attempt; ``generation_seconds`` goes on from earlier ones.
    """

    def __init__(self, reporter: Reporter, tally: Tally, total: int) -> None:
        self._reporter = reporter
        self._tally = tally
        self._total = total
        self._seconds_before = tally.seconds
        self._trajectories_before = tally.trajectories
        self._tokens_before = tally.sampled_tokens
        self._reported = -1
        self._started = time.monotonic()

    async def report_forever(self) -> None:
        """Report, again and again, until cancelled: progress at most every
        ``PROGRESS_SECONDS``, metrics every ``METRICS_SECONDS``."""
        self._progress()
        next_metrics = self._started + METRICS_SECONDS
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            self._progress()
            if time.monotonic() >= next_metrics:
                next_metrics += METRICS_SECONDS
                self._metrics()

    def finish(self) -> None:
        """Stop the clock and report once more."""
        self._progress()
        self._metrics()

    def _progress(self) -> None:
        done = self._tally.trajectories
        if done == self._reported:
            return
        self._reported = done
        played = done - self._trajectories_before
        eta = self._elapsed() / played * (self._total - done) if played else None
        self._reporter.progress(done, self._total, eta)

    def _metrics(self) -> None:
        elapsed = self._elapsed()
        tally = self._tally
        tally.seconds = self._seconds_before + elapsed
        played = tally.trajectories - self._trajectories_before
        figures = {
            "trajectories_per_second": played / elapsed,
            "tokens_per_second": (tally.sampled_tokens - self._tokens_before) / elapsed,
            "failed": tally.failed,
            "generation_seconds": tally.seconds,
        }
        if tally.rewarded:
            figures["reward"] = tally.reward_sum / tally.rewarded
        if tally.trajectories:
            figures["calls_per_trajectory"] = tally.calls / tally.trajectories
        if tally.calls:
            figures["call_failure_rate"] = tally.failed_calls / tally.calls
        self._reporter.metrics(tally.trajectories, **figures)

    def _elapsed(self) -> float:
        return max(time.monotonic() - self._started, 1e-9)
