"""Pauses of a job because its tools, rewards or endpoints are unavailable.

A child that runs into an outage ends with `Reporter.paused`, so that it holds no device, and is
started again after a growing delay. The file ``outage.json`` in the job's folder counts the pauses
since the last progress.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from services.contracts.errors import JobFailed, TemperError
from services.contracts.failures import FailureCode, OutageReport
from services.core.process.reporter import Reporter

FILE = "outage.json"
FIRST_SECONDS = 30.0
LONGEST_SECONDS = 600.0
GIVE_UP_SECONDS = 24 * 3600.0


class Outage(TemperError):
    """The job cannot go on before what it depends on is repaired; the message says what that is."""

    code = "outage"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True)

    since: float
    pauses: int

    @classmethod
    def read(cls, path: Path) -> Self | None:
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None


class Outages:
    """The pauses of a job since its last progress."""

    def __init__(self, job_dir: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = job_dir / FILE
        self._clock = clock

    @property
    def ongoing(self) -> bool:
        """Whether the job was paused and has made no progress since."""
        return self._path.exists()

    def begin(self, outage: Outage) -> OutageReport:
        """Count a pause, and say when to try again: 30 s later, then twice as long each time up to
        10 minutes. Raises `JobFailed` a day after the first pause."""
        now = self._clock()
        before = _Record.read(self._path) or _Record(since=now, pauses=0)
        if now - before.since >= GIVE_UP_SECONDS:
            hours = GIVE_UP_SECONDS / 3600
            raise JobFailed(
                f"nothing succeeded for {hours:.0f} hours: {outage.message}",
                code=FailureCode.INFRASTRUCTURE_UNAVAILABLE,
            )
        record = _Record(since=before.since, pauses=before.pauses + 1)
        partial = self._path.with_suffix(".partial")
        partial.write_text(record.model_dump_json())
        partial.replace(self._path)
        delay = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(before.pauses, 16))
        return OutageReport(message=outage.message, seconds=delay)

    @contextmanager
    def preflight(self) -> Iterator[bool]:
        """Turn a `JobFailed` of the block into an `Outage` while one is ongoing; yields whether one
        is."""
        try:
            yield self.ongoing
        except JobFailed as error:
            if not self.ongoing:
                raise
            raise Outage(error.message) from error

    def end(self) -> None:
        """Note that the job has made progress."""
        self._path.unlink(missing_ok=True)


def pause_for(outage: Outage, job_dir: Path, reporter: Reporter) -> None:
    """Write the result of a child that pauses for an outage, or fails after a day of it."""
    try:
        report = Outages(job_dir).begin(outage)
    except JobFailed as failed:
        reporter.fail(failed.code, failed.message)
    else:
        reporter.paused(report.model_dump())
