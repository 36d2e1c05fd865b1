"""Telling the worker how far the samples have come."""

import asyncio
import json
import time
from pathlib import Path

from services.common.process.reporter import METRICS, Reporter
from services.evaluator.evaluation.tally import Tally

PROGRESS_SECONDS = 0.25
METRICS_SECONDS = 3.0
_SECONDS = "generation_seconds"


class GenerationProgress:
    """Reports the progress of one attempt and keeps the clock of the tally.

    Rates are those of this attempt; ``generation_seconds`` goes on from earlier ones.
    """

    def __init__(self, reporter: Reporter, tally: Tally, total: int) -> None:
        self._reporter = reporter
        self._tally = tally
        self._total = total
        self._seconds_before = tally.seconds
        self._samples_before = tally.samples
        self._tokens_before = tally.completion_tokens
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
        done = self._tally.samples
        if done == self._reported:
            return
        self._reported = done
        asked = done - self._samples_before
        eta = self._elapsed() / asked * (self._total - done) if asked else None
        self._reporter.progress(done, self._total, eta)

    def _metrics(self) -> None:
        elapsed = self._elapsed()
        tally = self._tally
        tally.seconds = self._seconds_before + elapsed
        self._reporter.metrics(
            tally.samples,
            samples_per_second=(tally.samples - self._samples_before) / elapsed,
            tokens_per_second=(tally.completion_tokens - self._tokens_before) / elapsed,
            accuracy=tally.accuracy,
            errors=tally.errors,
            **{_SECONDS: tally.seconds},
        )

    def _elapsed(self) -> float:
        return max(time.monotonic() - self._started, 1e-9)


def seconds_of_earlier_attempts(job_dir: Path) -> float:
    """How long earlier attempts asked the model, as far as they came to report it."""
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
