"""Repairing what a crash left behind. Every function is safe to run at any time, by anyone."""

import time

from sqlalchemy import exists, select, update
from sqlalchemy.orm import Session

from services.common.contracts.jobs import JobError, JobStatus
from services.common.db.tables import JobRow, OutboxRow
from services.common.jobs.job import Job, job_from_row
from services.common.jobs.outbox import add_wake_up
from services.common.jobs.status import LeaseLost
from services.common.jobs.store import fail_job, move_job, release_validation
from services.common.jobs.workers import live_workers

MAX_LOSSES = 3
"""How many workers a job may lose before it fails."""


def recover_expired(session: Session, grace_seconds: float) -> int:
    """Take jobs from workers that were silent past their lease; return how many.

    The watchdog of a silent worker ends its processes at the expiry of the lease, within the
    grace period: only after both may another worker begin.
    """
    expired = session.scalars(
        select(JobRow)
        .where(
            JobRow.lease_expires_at < time.time() - grace_seconds,
            JobRow.status.in_([JobStatus.RUNNING.value, JobStatus.VALIDATING_FILES.value]),
        )
        .with_for_update(skip_locked=True)
    ).all()
    for job in [job_from_row(row) for row in expired]:
        try:
            _recover(session, job)
        except LeaseLost:
            continue  # its worker came back in the meantime
    return len(expired)


def _recover(session: Session, job: Job) -> None:
    lost = f"worker {job.owner} was lost"
    if job.cancel_requested_at is not None:
        move_job(session, job, JobStatus.CANCELLED, f"Cancelled; its {lost}", phase=None)
    elif job.status is JobStatus.VALIDATING_FILES:
        release_validation(session, job, f"The {lost}; validation starts again")
    elif job.losses + 1 >= MAX_LOSSES:
        message = f"{lost}; the job has now lost {MAX_LOSSES} workers"
        fail_job(session, job, JobError(code="worker_lost", message=message))
    else:
        message = f"The {lost}; the job goes on from its last checkpoint"
        move_job(session, job, JobStatus.QUEUED, message, level="warn", losses=job.losses + 1)
        add_wake_up(session, job.queue)


def wake_waiting_queues(session: Session, older_than_seconds: float) -> int:
    """Send one more wake-up to every queue with a waiting job and none on its way.

    This replaces messages that a broker or a killed worker lost. Returns the number sent.
    """
    before = time.time() - older_than_seconds
    waiting = {
        JobStatus.QUEUED: JobRow.queue,
        JobStatus.VALIDATING_FILES: JobRow.validation_queue,
    }
    woken = 0
    for status, queue in waiting.items():
        names = session.scalars(
            select(queue)
            .where(
                JobRow.status == status.value,
                JobRow.owner.is_(None),
                JobRow.updated_at < before,
                ~exists().where(OutboxRow.queue == queue),
            )
            .distinct()
        ).all()
        for name in names:
            add_wake_up(session, name)
        woken += len(names)
    return woken


def explain_missing_workers(session: Session) -> None:
    """Tell the jobs of queues that no live worker serves that this is what they wait for."""
    served = {queue for worker in live_workers(session) for queue in worker.queues}
    waiting = session.execute(
        select(JobRow.id, JobRow.queue, JobRow.queue_reason).where(
            JobRow.status == JobStatus.QUEUED.value
        )
    ).all()
    for job_id, queue, reason in waiting:
        missing = f"no {queue} worker is running"
        wanted = missing if queue not in served else (None if reason == missing else reason)
        if wanted != reason:
            session.execute(
                update(JobRow)
                .where(JobRow.id == job_id, JobRow.status == JobStatus.QUEUED.value)
                .values(queue_reason=wanted)
            )
