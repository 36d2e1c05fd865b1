"""Reports the progress of an evaluation's samples or a job's rollouts to the worker."""

import asyncio
import json
import time
from pathlib import Path
from typing import Protocol

from services.core.process.reporter import METRICS, Reporter

PROGRESS_SECONDS = 0.25
METRICS_SECONDS = 3.0
_SECONDS = "generation_seconds"


class Totals(Protocol):
    """Running totals, over all attempts at a job."""

    seconds: float

    @property
    def unit(self) -> str:
        """What is counted, in the plural."""
        ...

    @property
    def done(self) -> int:
        """How many of them are done."""
        ...

    @property
    def tokens(self) -> int:
        """How many tokens the model wrote for them."""
        ...

    def metrics_so_far(self) -> dict[str, float]:
        """Metrics reported besides rates."""
        ...


class GenerationProgress:
    """Reports the progress of one attempt and keeps the clock of the totals.

    Rates cover this attempt only; ``generation_seconds`` continues from earlier ones.
    """

    def __init__(self, reporter: Reporter, totals: Totals, total: int) -> None:
        self._reporter = reporter
        self._totals = totals
        self._total = total
        self._seconds_before = totals.seconds
        self._done_before = totals.done
        self._tokens_before = totals.tokens
        self._reported = -1
        self._started = time.monotonic()

    async def report_forever(self) -> None:
        """Report periodically until cancelled: progress at most every
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
        done = self._totals.done
        if done == self._reported:
            return
        self._reported = done
        here = done - self._done_before
        eta = self._elapsed() / here * (self._total - done) if here else None
        self._reporter.progress(done, self._total, eta)

    def _metrics(self) -> None:
        elapsed = self._elapsed()
        totals = self._totals
        totals.seconds = self._seconds_before + elapsed
        rates = {
            f"{totals.unit}_per_second": (totals.done - self._done_before) / elapsed,
            "tokens_per_second": (totals.tokens - self._tokens_before) / elapsed,
        }
        metrics = {**rates, **totals.metrics_so_far(), _SECONDS: totals.seconds}
        self._reporter.metrics(totals.done, **metrics)

    def _elapsed(self) -> float:
        return max(time.monotonic() - self._started, 1e-9)


def seconds_of_earlier_attempts(job_dir: Path) -> float:
    """Seconds that earlier attempts spent generating, as far as they are recorded."""
    path = job_dir / METRICS
    if not path.exists():
        return 0.0
    seconds = 0.0
    with open(path, "rb") as file:
        for line in file:
            seconds = _seconds(line) or seconds
    return seconds


def _seconds(line: bytes) -> float | None:
    try:
        record = json.loads(line)
    except ValueError:  # torn by a kill
        return None
    seconds = record.get(_SECONDS) if isinstance(record, dict) else None
    return seconds if isinstance(seconds, float) else None
