"""Following the reports of a running child."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from services.core.db.engine import Database
from services.core.jobs.claims import Claim
from services.core.jobs.reports import Report, parse_report, record_reports
from services.core.process.reporter import REPORTS
from services.core.worker.child_files import open_child_file

logger = logging.getLogger(__name__)

MAX_BATCH_BYTES = 1 << 20
LOG_TAIL_BYTES = 16_384
LOG_TAIL_LINES = 30
MAX_LOG_BYTES = 64 << 20


class ReportFollower:
    """Moves complete lines of a child's report file into the database, each exactly once.

    The position is stored with what was read, so that a later attempt goes on behind it. A file
    that is shorter than that is another one, and read from its start.
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

    def _read(self) -> tuple[Sequence[Report], int]:
        try:
            with open_child_file(self._path) as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                batch = file.read(MAX_BATCH_BYTES)
        except FileNotFoundError:
            self._offset = 0
            return [], 0
        complete = batch[: batch.rfind(b"\n") + 1]
        if not complete and len(batch) == MAX_BATCH_BYTES:
            complete = batch  # one endless line: pass it on as unreadable rather than stall
        lines = [line for line in complete.split(b"\n") if line.strip()]
        return [parse_report(line) for line in lines], self._offset + len(complete)


def log_tail(log: Path) -> list[str]:
    """The last lines of a child's log, for the event that says why it failed."""
    try:
        with open_child_file(log) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        return [str(error)]
    return [line[:500] for line in text.splitlines()][-LOG_TAIL_LINES:]


def bound_log(log: Path) -> None:
    """Cut a log that has grown too large down to its end, so that no child fills the disk.

    The child goes on appending; what it writes in this very moment may be lost.
    """
    try:
        if log.lstat().st_size <= MAX_LOG_BYTES:
            return
        tail = "\n".join(log_tail(log))
        with open_child_file(log, writable=True) as file:
            file.truncate(0)
            note = f"[the log was longer than {MAX_LOG_BYTES} bytes; its end follows]"
            file.write(f"{note}\n{tail}\n".encode())
    except FileNotFoundError:
        return
    except OSError as error:
        logger.warning("the log %s cannot be cut: %s", log, error)
