"""Reports of a child: read from its file, applied to its job, each exactly once."""

import logging
import os
import stat
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError
from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from services.core.db.engine import Database
from services.core.db.tables import CheckpointRow, EventRow, JobRow
from services.core.ids import new_id
from services.core.process.reporter import REPORTS
from services.jobs.claims import Claim
from services.jobs.events import Draft, append_events, storable, storable_text
from services.jobs.job import LeaseLost
from services.jobs.worker.thinning import bounded

MAX_REPORT_BYTES = 1 << 17

Text = Annotated[str, AfterValidator(storable_text)]
Step = Annotated[int, Field(ge=0, lt=2**53)]
Metric = Annotated[float | None, AfterValidator(storable)]


class PhaseReport(BaseModel):
    """A phase of the work begins."""

    type: Literal["phase"]
    phase: Annotated[Text, Field(max_length=64)]


class MessageReport(BaseModel):
    """A message to the user."""

    type: Literal["message"]
    level: Literal["info", "warn", "error"] = "info"
    message: str
    data: dict[str, Any] = Field(default_factory=dict)


class ProgressReport(BaseModel):
    """Progress of the work."""

    type: Literal["progress"]
    step: Step
    total_steps: Step
    eta_seconds: Metric = None


class DownloadReport(BaseModel):
    """The state of a download of a model; the latest counts."""

    type: Literal["download"]
    bytes: Step
    total_bytes: Step
    bytes_per_second: Metric = None
    eta_seconds: Metric = None


class MetricsReport(BaseModel):
    """Metrics of one step."""

    type: Literal["metrics"]
    step: Step
    metrics: dict[Text, Metric]


class CheckpointReport(BaseModel):
    """A checkpoint is complete. ``kept`` are the steps of all that are there; None in reports of
    earlier versions, which do not say it."""

    type: Literal["checkpoint"]
    step: Step
    path: Text
    kept: list[Step] | None = None


Report = Annotated[
    PhaseReport
    | MessageReport
    | ProgressReport
    | DownloadReport
    | MetricsReport
    | CheckpointReport,
    Field(discriminator="type"),
]
_REPORT: TypeAdapter[Report] = TypeAdapter(Report)


LOOK_BACK = 20
"""How many earlier reports are searched for a checkpoint's metrics."""


def parse_report(line: bytes) -> Report:
    """Parse one line; an invalid one becomes a warning that shows it."""
    try:
        if len(line) <= MAX_REPORT_BYTES:
            return _REPORT.validate_json(line)
    except ValidationError:
        pass
    shown = line[:200].decode(errors="replace")
    return MessageReport(
        type="message", level="warn", message=f"unreadable report from the process: {shown}"
    )


_CLOCKS = ("_seconds", "_per_second")
"""Endings of the names of metrics that change while nothing else does."""

Told = tuple[int, dict[str, float | None]]
"""The step and the metrics of a report but its clocks."""


def without_repeats(
    reports: Sequence[Report], told: Told | None
) -> tuple[list[Report], Told | None]:
    """The reports without metrics that repeat the ones before, ``told`` at first, except for times
    and rates; and the last metrics.

    A process that waits reports them every few seconds; metrics.jsonl has every report.
    """
    kept: list[Report] = []
    for report in reports:
        if isinstance(report, MetricsReport):
            values = report.metrics.items()
            now = report.step, {name: one for name, one in values if not name.endswith(_CLOCKS)}
            if now == told:
                continue
            told = now
        kept.append(report)
    return kept, told


def record_reports(session: Session, claim: Claim, reports: Sequence[Report], offset: int) -> None:
    """Apply reports in order and store the file position, in one transaction.

    Raises `LeaseLost` when the claim has ended.
    """
    job = claim.job
    recorded = session.scalar(
        update(JobRow)
        .where(JobRow.id == job.id, JobRow.epoch == job.epoch, JobRow.owner == job.owner)
        .values(reports_offset=offset, updated_at=time.time(), **_latest_state(reports))
        .returning(JobRow.event_count)
    )
    if recorded is None:
        raise LeaseLost(f"job {job.id} was taken from {job.owner} in epoch {job.epoch}")
    new = _add_checkpoints(session, job.id, reports)
    states = ProgressReport | DownloadReport
    drafts = [_draft(report) for report in new if not isinstance(report, states)]
    append_events(session, job.id, bounded(session, job.id, drafts, recorded))


def _latest_state(reports: Sequence[Report]) -> dict[str, object]:
    """The columns of the job that reports change; the last report wins."""
    state: dict[str, object] = {}
    for report in reports:
        if isinstance(report, PhaseReport):
            state |= {"phase": report.phase, "download": None}
        elif isinstance(report, ProgressReport):
            state |= report.model_dump(include={"step", "total_steps", "eta_seconds"})
        elif isinstance(report, DownloadReport):
            state["download"] = report.model_dump(exclude={"type"})
    return state


def _draft(
    report: PhaseReport | MessageReport | MetricsReport | CheckpointReport,
) -> Draft:
    match report:
        case PhaseReport():
            return Draft(f"Phase: {report.phase}", data={"phase": report.phase})
        case MessageReport():
            return Draft(report.message, report.level, data=report.data or None)
        case MetricsReport():
            values = report.metrics.items()
            shown = ", ".join(f"{name}={value:.4g}" for name, value in values if value is not None)
            data: dict[str, Any] = {"step": report.step, **report.metrics}
            return Draft(f"Step {report.step}: {shown}", type="metrics", data=data)
        case CheckpointReport():
            place: dict[str, Any] = {"step": report.step, "path": report.path}
            return Draft(f"Checkpoint at step {report.step}", data=place)


def _add_checkpoints(session: Session, job_id: str, reports: Sequence[Report]) -> list[Report]:
    """Store new checkpoints, and delete the rows of those that are gone; return the reports without
    checkpoints of earlier attempts."""
    steps = {report.step for report in reports if isinstance(report, CheckpointReport)}
    if not steps:
        return list(reports)
    known = set(session.scalars(select(CheckpointRow.step).where(CheckpointRow.job_id == job_id)))
    metrics = _latest_metrics(session, job_id)
    kept: list[Report] = []
    rows: dict[int, dict[str, object]] = {}
    gone: set[int] = set()
    for report in reports:
        if isinstance(report, MetricsReport):
            metrics |= report.metrics
        elif isinstance(report, CheckpointReport):
            deleted = set() if report.kept is None else known - {*report.kept, report.step}
            known -= deleted
            gone |= deleted
            if report.step in known:
                continue
            known.add(report.step)
            rows[report.step] = _checkpoint(job_id, report, metrics)
        kept.append(report)
    if gone:
        stored = CheckpointRow.job_id == job_id, CheckpointRow.step.in_(gone)
        session.execute(delete(CheckpointRow).where(*stored))
    if present := [row for step, row in rows.items() if step in known]:
        session.execute(insert(CheckpointRow), present)
    return kept


def _checkpoint(
    job_id: str, report: CheckpointReport, metrics: dict[str, Any]
) -> dict[str, object]:
    return {
        "job_id": job_id,
        "step": report.step,
        "id": new_id("ftckpt"),
        "path": report.path,
        "metrics": {name: value for name, value in metrics.items() if value is not None}
        | {"step": report.step},
        "created_at": time.time(),
    }


def _latest_metrics(session: Session, job_id: str) -> dict[str, Any]:
    """The last value of each metric before this batch; reports hold different metrics."""
    latest = session.scalars(
        select(EventRow.data)
        .where(EventRow.job_id == job_id, EventRow.type == "metrics")
        .order_by(EventRow.number.desc())
        .limit(LOOK_BACK)
    ).all()
    return {name: value for data in reversed(latest) for name, value in (data or {}).items()}


logger = logging.getLogger(__name__)

MAX_BATCH_BYTES = 1 << 20
LOG_TAIL_BYTES = 16_384
LOG_TAIL_LINES = 30
MAX_LOG_BYTES = 64 << 20


class ReportFollower:
    """Copies complete lines of a child's report file into the database, each exactly once.

    The position is stored in the same transaction, and later attempts continue there. A file that
    is shorter than the position is a new one and read from its start. ``note`` is called with each
    batch.
    """

    def __init__(
        self,
        database: Database,
        claim: Claim,
        job_dir: Path,
        note: Callable[[Sequence[Report]], None] = lambda _: None,
    ) -> None:
        self._note = note
        self._database = database
        self._claim = claim
        self._path = job_dir / REPORTS
        self._offset = claim.job.reports_offset
        self._told: Told | None = None

    def follow(self) -> bool:
        """Record a batch of new reports; true when there may be more.

        Raises `LeaseLost` when the claim has ended.
        """
        reports, end = self._read()
        if not reports:
            return False
        self._note(reports)
        changed, told = without_repeats(reports, self._told)
        with self._database.write() as session:
            record_reports(session, self._claim, changed, end)
        self._offset, self._told = end, told
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
            complete = batch  # an overlong line: report it as unreadable rather than stall
        lines = [line for line in complete.split(b"\n") if line.strip()]
        return [parse_report(line) for line in lines], self._offset + len(complete)


def log_tail(log: Path) -> list[str]:
    """The last lines of a child's log, for the event of its failure."""
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
    """Truncate an oversized log to its last lines, so that no child fills the disk.

    The child keeps appending; lines that it writes concurrently may be lost.
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
        logger.warning("cannot truncate the log %s: %s", log, error)


def open_child_file(path: Path, *, writable: bool = False) -> IO[bytes]:
    """Open a regular file; raises OSError for a symbolic link, a pipe or a device.

    A link could point to other files than the child's, and a pipe would block the worker.
    """
    access = os.O_RDWR if writable else os.O_RDONLY
    descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return open(descriptor, "rb+" if writable else "rb")
