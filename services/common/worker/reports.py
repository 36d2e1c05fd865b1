"""Following the reports of a running child."""

import os
from collections.abc import Sequence
from pathlib import Path

from services.common.db.engine import Database
from services.common.jobs.claims import Claim
from services.common.jobs.reports import Report, parse_report, record_reports
from services.common.process.reporter import REPORTS

MAX_BATCH_BYTES = 1 << 20
LOG_TAIL_BYTES = 16_384
LOG_TAIL_LINES = 30
MAX_LOG_BYTES = 64 << 20


class ReportFollower:
    """Moves complete lines of a child's report file into the database, each exactly once.

    The position is stored with what was read, so that a later attempt goes on behind it.
    """

    def __init__(self, database: Database, claim: Claim, job_dir: Path) -> None:
        self._database = database
        self._claim = claim
        self._path = job_dir / REPORTS
        self._offset = claim.job.reports_offset

    def follow(self) -> bool:
        """Record one batch of new reports; true when there may be more.

        Raises `LeaseLost` when the claim no longer holds.
        """
        reports, end = self._read()
        if not reports:
            return False
        with self._database.write() as session:
            record_reports(session, self._claim, reports, end)
        self._offset = end
        return True

    def follow_to_end(self) -> None:
        """Record all that the child has written."""
        while self.follow():
            pass

    def _read(self) -> tuple[Sequence[Report], int]:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                batch = file.read(MAX_BATCH_BYTES)
        except FileNotFoundError:
            return [], self._offset
        complete = batch[: batch.rfind(b"\n") + 1]
        if not complete and len(batch) == MAX_BATCH_BYTES:
            complete = batch  # one endless line: pass it on as unreadable rather than stall
        lines = [line for line in complete.split(b"\n") if line.strip()]
        return [parse_report(line) for line in lines], self._offset + len(complete)


def log_tail(log: Path) -> list[str]:
    """The last lines of a child's log, for the event that says why it failed."""
    try:
        with open(log, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line[:500] for line in text.splitlines()][-LOG_TAIL_LINES:]


def bound_log(log: Path) -> None:
    """Cut a log that has grown too large down to its end, so that no child fills the disk.

    The child goes on appending; what it writes in this very moment may be lost.
    """
    if not log.exists() or log.stat().st_size <= MAX_LOG_BYTES:
        return
    tail = "\n".join(log_tail(log))
    os.truncate(log, 0)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"[the log was longer than {MAX_LOG_BYTES} bytes; its end follows]\n{tail}\n")
