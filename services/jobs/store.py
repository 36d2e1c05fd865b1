"""Creating, reading, moving and cancelling jobs."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from services.contracts.errors import Conflict, InvalidRequest, NotFound
from services.contracts.failures import hint_of
from services.contracts.jobs import JobError, JobStatus
from services.contracts.kinds import JobKind
from services.contracts.webhooks import EventType
from services.core.changes import announce_change
from services.core.db.engine import now as database_now
from services.core.db.tables import CheckpointRow, JobRow
from services.jobs.attempts import end_attempt
from services.jobs.events import Level, announce, append_event, storable, storable_text
from services.jobs.files import names_file
from services.jobs.job import (
    Job,
    LeaseLost,
    NewJob,
    check_move,
    has_shown_status,
    job_from_row,
    shown_status_column,
)
from services.jobs.names import new_name
from services.jobs.queues import add_wake_up, wake_waiting
from services.jobs.text_search import contains_text, is_about_model


@dataclass(frozen=True)
class JobFilter:
    """Filter of a job list; None means any."""

    kind: str | None = None
    status: JobStatus | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    file: str | None = None
    """An uploaded file that the request of the job names."""
    text: str | None = None
    """Substring of a searchable field, see `contains_text`."""
    model: str | None = None
    """The model that the job works with or made, by its whole id."""


def create_job(session: Session, new: NewJob) -> Job:
    """Create a job whose files are to be validated, with its wake-up."""
    now = time.time()
    row = JobRow(
        id=new.id,
        name=new_name(session, new),
        kind=new.kind,
        status=JobStatus.VALIDATING_FILES.value,
        queue=new.queue,
        validation_queue=new.validation_queue,
        priority=new.priority,
        gpus=new.gpus,
        request=new.request,
        labels=new.metadata,
        deadline_at=_deadline(session, new.deadline_seconds),
        memory_estimate=new.memory_estimate,
        created_at=now,
        updated_at=now,
    )
    session.add(row)
    session.flush()
    append_event(session, new.id, "Job created; validating its files")
    for warning in new.warnings:
        append_event(session, new.id, warning, level="warn")
    add_wake_up(session, new.validation_queue)
    session.refresh(row)
    return job_from_row(row)


def _deadline(session: Session, seconds: int | None) -> float | None:
    return None if seconds is None else database_now(session) + seconds


def get_job(session: Session, job_id: str, kind: str | None = None, *, lock: bool = False) -> Job:
    """Return a job, or raise `NotFound`, also for a job of another ``kind``.

    ``lock`` blocks other writers until the transaction ends (on SQLite every write does).
    """
    query = select(JobRow).where(JobRow.id == job_id).execution_options(populate_existing=True)
    row = session.scalar(query.with_for_update() if lock else query)
    if row is None or (kind is not None and row.kind != kind):
        raise NotFound(f"no job {job_id!r}", param="id", code="job_not_found")
    return job_from_row(row)


def list_jobs(
    session: Session, where: JobFilter, after: str | None, limit: int
) -> tuple[list[Job], bool]:
    """Return up to ``limit`` jobs, newest first, and whether there are more."""
    query = select(JobRow)
    if where.kind is not None:
        query = query.where(JobRow.kind == where.kind)
    if where.file is not None:
        query = query.where(names_file(where.file))
    if where.status is not None:
        query = query.where(has_shown_status(where.status))
    for key, value in where.metadata.items():
        query = query.where(JobRow.labels[key].as_string() == value)
    if where.model is not None:
        query = query.where(is_about_model(where.model))
    if where.text is not None:
        query = query.where(contains_text(where.text))
    if after is not None:
        query = query.where(JobRow.seq < _position(session, after))
    rows = session.scalars(query.order_by(JobRow.seq.desc()).limit(limit + 1)).all()
    return [job_from_row(row) for row in rows[:limit]], len(rows) > limit


def _position(session: Session, job_id: str) -> int:
    seq = session.scalar(select(JobRow.seq).where(JobRow.id == job_id))
    if seq is None:
        raise InvalidRequest(f"no job {job_id[:80]!r}", param="after")
    return seq


def count_jobs(session: Session) -> Sequence[tuple[str, str, int]]:
    """Return (kind, status as shown, number of jobs)."""
    status = shown_status_column()
    counts = session.execute(
        select(JobRow.kind, status, func.count()).group_by(JobRow.kind, status)
    )
    return [(kind, status, number) for kind, status, number in counts]


def move_job(
    session: Session,
    job: Job,
    to: JobStatus,
    message: str,
    *,
    level: Level = "info",
    data: dict[str, Any] | None = None,
    **changes: Any,
) -> Job:
    """Change the status of a job and append the event: compare-and-set on status and epoch.

    Raises `LeaseLost` when the job is no longer as in ``job``.
    """
    check_move(job.id, job.status, to)
    now = time.time()
    if to in _RESUMES:
        changes.setdefault("step", saved_step(session, job))
    if to.is_final:
        changes.setdefault("finished_at", now)
    if to is not JobStatus.RUNNING:
        changes |= {"owner": None, "lease_expires_at": None, "eta_seconds": None}
        changes["download"] = None
        changes |= {"pause_requested_at": None}
    moved = session.scalar(
        update(JobRow)
        .where(JobRow.id == job.id, JobRow.status == job.status.value, JobRow.epoch == job.epoch)
        .values(status=to.value, updated_at=now, **({"queue_reason": None} | changes))
        .returning(JobRow.id)
    )
    if moved is None:
        raise LeaseLost(f"job {job.id} is no longer {job.status} in epoch {job.epoch}")
    append_event(session, job.id, message, level=level, data=data)
    announce_change(session)
    if job.status is JobStatus.RUNNING:
        end_attempt(session, job, to, message)
    if (event_type := _ANNOUNCED.get(to)) is not None:
        told = {"id": job.id, "kind": job.kind, "status": to.value, "message": message}
        announce(session, event_type, told | {"error": changes.get("error")})
    if to.is_final:
        wake_waiting(session, job.id)
    return get_job(session, job.id)


_RESUMES = (JobStatus.QUEUED, JobStatus.PAUSED)
"""Statuses in which the step of a job is the one that its next attempt continues from."""


def saved_step(session: Session, job: Job) -> int | None:
    """The step that the next attempt of a job continues from: a training's is that of its newest
    checkpoint, others keep what they have done. None before the first report."""
    if job.step is None or job.kind != JobKind.FINE_TUNING:
        return job.step
    newest = select(func.max(CheckpointRow.step)).where(CheckpointRow.job_id == job.id)
    return session.scalar(newest) or 0


_ANNOUNCED = {
    JobStatus.RUNNING: EventType.JOB_RUNNING,
    JobStatus.PAUSED: EventType.JOB_PAUSED,
    JobStatus.SUCCEEDED: EventType.JOB_SUCCEEDED,
    JobStatus.FAILED: EventType.JOB_FAILED,
    JobStatus.CANCELLED: EventType.JOB_CANCELLED,
}


def fail_job(
    session: Session, job: Job, error: JobError, data: dict[str, Any] | None = None
) -> Job:
    """Fail a job; ``data`` goes with the event. The error gets the hint of its code."""
    completed = {"message": storable_text(error.message), "hint": hint_of(error.code)}
    error = error.model_copy(update=completed)
    validating = job.status is JobStatus.VALIDATING_FILES
    return move_job(
        session,
        job,
        JobStatus.FAILED,
        f"Failed: {error.message}",
        level="error",
        data={"code": error.code, "param": error.param, **(data or {})},
        error=storable(error.model_dump()),
        phase=None,
        # The progress of the validation is not progress of the job.
        **({"step": None, "total_steps": None} if validating else {}),
    )


def release_validation(
    session: Session, job: Job, message: str, *, losses: int, not_before: float | None = None
) -> None:
    """Release a claimed validation; another worker restarts it."""
    released = session.scalar(
        update(JobRow)
        .where(
            JobRow.id == job.id,
            JobRow.status == JobStatus.VALIDATING_FILES.value,
            JobRow.epoch == job.epoch,
        )
        .values(
            owner=None,
            lease_expires_at=None,
            phase=None,
            losses=losses,
            not_before=not_before,
            updated_at=time.time(),
        )
        .returning(JobRow.id)
    )
    if released is None:
        raise LeaseLost(f"the validation of job {job.id} left epoch {job.epoch}")
    append_event(session, job.id, message, level="warn")
    add_wake_up(session, job.validation_queue)


def request_cancel(session: Session, job_id: str, kind: str | None = None) -> Job:
    """Cancel a waiting job immediately; ask the worker of a running one to stop it.

    Cancelling twice has no effect. Raises `Conflict` when the job has ended otherwise.
    """
    job = get_job(session, job_id, kind, lock=True)
    if job.status is JobStatus.CANCELLED or job.cancel_requested_at is not None:
        return job
    if job.status.is_final:
        raise Conflict(f"job {job_id} has already {job.status}", code="job_already_final")
    session.execute(
        update(JobRow).where(JobRow.id == job_id).values(cancel_requested_at=time.time())
    )
    if job.owner is None:
        when = "while paused" if job.status is JobStatus.PAUSED else "before it ran"
        return move_job(session, job, JobStatus.CANCELLED, f"Cancelled {when}", phase=None)
    append_event(session, job_id, "Cancellation requested")
    return get_job(session, job_id)


def retry_job(session: Session, job_id: str, kind: str | None = None) -> Job:
    """Requeue a failed job: its files are validated again, or its work resumes from the last
    checkpoint. Raises `Conflict` when the job has not failed."""
    job = get_job(session, job_id, kind, lock=True)
    if job.status is not JobStatus.FAILED:
        raise Conflict(f"job {job_id} is {job.status}, not failed", code="job_not_failed")
    to = JobStatus.VALIDATING_FILES if job.started_at is None else JobStatus.QUEUED
    fresh: dict[str, Any] = {"error": None, "finished_at": None, "cancel_requested_at": None}
    fresh |= {"losses": 0, "progress": 0, "not_before": None}
    fresh["deadline_at"] = _deadline(session, job.request.get("deadline_seconds"))
    retried = move_job(session, job, to, "Retried on request", **fresh)
    add_wake_up(session, retried.current_queue)
    return retried


def list_checkpoints(
    session: Session, job_id: str, after: str | None, limit: int
) -> tuple[Sequence[CheckpointRow], bool]:
    """Return up to ``limit`` checkpoints of a job, newest first, and whether there are more."""
    query = select(CheckpointRow).where(CheckpointRow.job_id == job_id)
    if after is not None:
        step = session.scalar(
            select(CheckpointRow.step).where(
                CheckpointRow.id == after, CheckpointRow.job_id == job_id
            )
        )
        if step is None:
            raise InvalidRequest(f"no checkpoint {after[:80]!r}", param="after")
        query = query.where(CheckpointRow.step < step)
    rows = session.scalars(query.order_by(CheckpointRow.step.desc()).limit(limit + 1)).all()
    return rows[:limit], len(rows) > limit
