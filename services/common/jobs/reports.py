"""What a child reported, as typed values, and how it becomes state of the job."""

import time
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from services.common.db.tables import CheckpointRow, EventRow, JobRow
from services.common.ids import new_id
from services.common.jobs.claims import Claim
from services.common.jobs.events import append_event
from services.common.jobs.status import LeaseLost

MAX_MESSAGE = 4000


class PhaseReport(BaseModel):
    """A part of the work has begun."""

    type: Literal["phase"]
    phase: str = Field(max_length=64)


class MessageReport(BaseModel):
    """Something to tell the user."""

    type: Literal["message"]
    level: Literal["info", "warn", "error"] = "info"
    message: str
    data: dict[str, Any] = Field(default_factory=dict)


class ProgressReport(BaseModel):
    """How far the work has come."""

    type: Literal["progress"]
    step: int
    total_steps: int
    eta_seconds: float | None = None


class MetricsReport(BaseModel):
    """Figures of one step."""

    type: Literal["metrics"]
    step: int
    metrics: dict[str, float | None]


class CheckpointReport(BaseModel):
    """A checkpoint is complete."""

    type: Literal["checkpoint"]
    step: int
    path: str


Report = Annotated[
    PhaseReport | MessageReport | ProgressReport | MetricsReport | CheckpointReport,
    Field(discriminator="type"),
]
_REPORT: TypeAdapter[Report] = TypeAdapter(Report)


def parse_report(line: bytes) -> Report:
    """Read one line; a line that is no report becomes a warning that shows it."""
    try:
        return _REPORT.validate_json(line)
    except ValidationError:
        shown = line[:200].decode(errors="replace")
        return MessageReport(
            type="message", level="warn", message=f"unreadable report from the process: {shown}"
        )


def record_reports(session: Session, claim: Claim, reports: Sequence[Report], offset: int) -> None:
    """Apply reports in order and remember how far the file was read, in one transaction.

    Raises `LeaseLost` when the claim no longer holds.
    """
    job = claim.job
    held = session.scalar(
        update(JobRow)
        .where(JobRow.id == job.id, JobRow.epoch == job.epoch, JobRow.owner == job.owner)
        .values(reports_offset=offset, updated_at=time.time())
        .returning(JobRow.id)
    )
    if held is None:
        raise LeaseLost(f"job {job.id} was taken from {job.owner} in epoch {job.epoch}")
    for report in reports:
        _apply(session, job.id, report)


def _apply(session: Session, job_id: str, report: Report) -> None:
    match report:
        case PhaseReport():
            _set(session, job_id, phase=report.phase)
            append_event(session, job_id, f"Phase: {report.phase}", data={"phase": report.phase})
        case MessageReport():
            message = report.message[:MAX_MESSAGE]
            append_event(session, job_id, message, level=report.level, data=report.data or None)
        case ProgressReport():
            _set(
                session,
                job_id,
                step=report.step,
                total_steps=report.total_steps,
                eta_seconds=report.eta_seconds,
            )
        case MetricsReport():
            shown = ", ".join(
                f"{name}={value:.4g}" for name, value in report.metrics.items() if value is not None
            )
            append_event(
                session,
                job_id,
                f"Step {report.step}: {shown}",
                type="metrics",
                data={"step": report.step, **report.metrics},
            )
        case CheckpointReport():
            _add_checkpoint(session, job_id, report)


def _set(session: Session, job_id: str, **values: object) -> None:
    session.execute(update(JobRow).where(JobRow.id == job_id).values(**values))


def _add_checkpoint(session: Session, job_id: str, report: CheckpointReport) -> None:
    known = session.get(CheckpointRow, (job_id, report.step))
    if known is not None:
        return  # an earlier attempt wrote the same step
    session.execute(
        insert(CheckpointRow).values(
            job_id=job_id,
            step=report.step,
            id=new_id("ftckpt"),
            path=report.path,
            metrics=_latest_metrics(session, job_id),
            created_at=time.time(),
        )
    )
    append_event(
        session,
        job_id,
        f"Checkpoint at step {report.step}",
        data={"step": report.step, "path": report.path},
    )


def _latest_metrics(session: Session, job_id: str) -> dict[str, Any]:
    """The figures last reported before a checkpoint."""
    data = session.scalar(
        select(EventRow.data)
        .where(EventRow.job_id == job_id, EventRow.type == "metrics")
        .order_by(EventRow.number.desc())
        .limit(1)
    )
    return {name: value for name, value in (data or {}).items() if value is not None}
