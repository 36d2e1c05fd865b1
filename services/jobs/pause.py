"""Pausing jobs and resuming them.

A paused job holds neither worker nor devices; resumed, it waits in its queue again and continues
from its last checkpoint. The worker of a running job carries out the pause, so that the status
changes only once the job's processes have exited. A job that paused because of an outage is resumed
by the dispatcher (`services.core.process.outages`).
"""

import time
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from services.contracts.errors import Conflict
from services.contracts.jobs import JobStatus
from services.core.db.engine import now
from services.core.db.tables import JobRow
from services.jobs.events import append_event
from services.jobs.job import Job, job_from_row
from services.jobs.queues import add_wake_up
from services.jobs.store import get_job, move_job

PAUSING = "pausing"
"""The phase of a running job from the request until its processes have exited."""


def request_pause(session: Session, job_id: str, kind: str | None = None) -> Job:
    """Pause a queued job immediately; ask the worker of a running one for a checkpoint.

    A job whose files are being validated is paused once they are valid; one that waits for the end
    of an outage is not tried again. Raises `Conflict` when the
    job has ended, or is paused, pausing or being cancelled already.
    """
    job = get_job(session, job_id, kind, lock=True)
    if job.status is JobStatus.PAUSED and job.not_before is not None:
        held = update(JobRow).where(JobRow.id == job_id).values(not_before=None, queue_reason=None)
        session.execute(held)
        append_event(session, job_id, "Pause requested; the job is paused until it is resumed")
        return get_job(session, job_id)
    _check_pausable(job)
    if job.status is JobStatus.QUEUED:
        return move_job(session, job, JobStatus.PAUSED, "Paused before it ran", not_before=None)
    running = job.status is JobStatus.RUNNING
    changes: dict[str, Any] = {"phase": PAUSING} if running else {}
    session.execute(
        update(JobRow).where(JobRow.id == job_id).values(pause_requested_at=time.time(), **changes)
    )
    until = "as soon as a checkpoint is written" if running else "once its files are valid"
    append_event(session, job_id, f"Pause requested; the job is paused {until}")
    return get_job(session, job_id)


def resume_job(session: Session, job_id: str, kind: str | None = None) -> Job:
    """Requeue a paused job, or withdraw the pause of one whose files are still being validated.

    Raises `Conflict` when the job is neither.
    """
    job = get_job(session, job_id, kind, lock=True)
    if job.status is JobStatus.PAUSED:
        resumed = move_job(session, job, JobStatus.QUEUED, "Resumed on request", not_before=None)
        add_wake_up(session, resumed.queue)
        return resumed
    if job.pause_requested_at is None:
        raise Conflict(f"job {job_id} is {job.status}, not paused", code="job_not_paused")
    if job.status is JobStatus.RUNNING:
        message = f"job {job_id} is still pausing; resume it once it is paused"
        raise Conflict(message, code="job_pausing")
    session.execute(update(JobRow).where(JobRow.id == job_id).values(pause_requested_at=None))
    append_event(session, job_id, "Pause withdrawn")
    return get_job(session, job_id)


def resume_after_outages(session: Session) -> int:
    """Requeue the jobs that paused because of an outage and are to be tried again; return their
    number."""
    due = session.scalars(
        select(JobRow)
        .where(JobRow.status == JobStatus.PAUSED.value, JobRow.not_before <= now(session))
        .order_by(JobRow.seq)
        .with_for_update(skip_locked=True)
    ).all()
    for job in map(job_from_row, due):
        resumed = move_job(session, job, JobStatus.QUEUED, "Tried again", not_before=None)
        add_wake_up(session, resumed.queue)
    return len(due)


def count_outages(session: Session) -> int:
    """How many jobs are paused because of an outage."""
    paused = JobRow.status == JobStatus.PAUSED.value, JobRow.not_before.is_not(None)
    return session.scalar(select(func.count()).select_from(JobRow).where(*paused)) or 0


def _check_pausable(job: Job) -> None:
    if job.status.is_final:
        raise Conflict(f"job {job.id} has already {job.status}", code="job_already_final")
    if job.cancel_requested_at is not None:
        raise Conflict(f"job {job.id} is being cancelled", code="job_being_cancelled")
    if job.status is JobStatus.PAUSED:
        raise Conflict(f"job {job.id} is already paused", code="job_already_paused")
    if job.pause_requested_at is not None:
        raise Conflict(f"job {job.id} is already pausing", code="job_pausing")
