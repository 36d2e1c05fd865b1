"""Progress reports of a build."""

import time

from services.core.process.reporter import Reporter

PROGRESS_SECONDS = 0.5
METRICS_SECONDS = 10.0


class BuildProgress:
    """Rate-limited progress of one attempt, in passages."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._started = time.monotonic()
        self._before = 0
        self._next_report = 0.0
        self._next_metrics = 0.0

    def begin(self, phase: str, done: int = 0) -> None:
        """Start a phase; ``done`` passages were completed by earlier attempts."""
        self._reporter.phase(phase)
        self._started = time.monotonic()
        self._before = done
        self._next_report = 0.0
        self._next_metrics = self._started + METRICS_SECONDS

    def report(self, done: int, total: float) -> None:
        """Report ``done`` of about ``total`` passages; the end of a phase is always reported."""
        now = time.monotonic()
        if now < self._next_report and done < total:
            return
        self._next_report = now + PROGRESS_SECONDS
        rate = (done - self._before) / max(now - self._started, 1e-9)
        left = max(0.0, total - done)
        self._reporter.progress(done, max(done, round(total)), left / rate if rate else None)
        if now >= self._next_metrics:
            self._next_metrics = now + METRICS_SECONDS
            self._reporter.metrics(done, passages_per_second=rate)

    def message(self, text: str) -> None:
        """Report a message to the user."""
        self._reporter.message(text)
