"""Repair after crashes. Every function may run at any time, in several processes."""

import time

from sqlalchemy import exists, select, update
from sqlalchemy.orm import Session

from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import now
from services.core.db.tables import JobRow, OutboxRow, WorkerRow
from services.core.jobs.job import Job, LeaseLost, job_from_row
from services.core.jobs.queues import add_wake_up
from services.core.jobs.store import fail_job, move_job, release_validation
from services.core.jobs.workers import live_workers

MAX_LOSSES = 3
"""The job fails when it loses this many workers."""

ITS_TURN = "waiting for its turn"

KILL_SECONDS = 2.0
"""Upper bound of the time that killing takes after the grace period."""


def recover_expired(session: Session, grace_seconds: float) -> int:
    """Take jobs from workers whose lease has expired; return their number.

    The watchdog of a lost worker stops its processes when the lease expires and kills them after
    the grace period: only then may another worker start.
    """
    expired = session.scalars(
        select(JobRow)
        .where(
            JobRow.lease_expires_at < now(session) - grace_seconds - KILL_SECONDS,
            JobRow.status.in_([JobStatus.RUNNING.value, JobStatus.VALIDATING_FILES.value]),
        )
        .with_for_update(skip_locked=True)
    ).all()
    for job in [job_from_row(row) for row in expired]:
        try:
            give_up_claim(session, job, f"worker {job.owner} was lost")
        except LeaseLost:
            continue  # its worker has come back
    return len(expired)


def give_up_claim(session: Session, job: Job, lost: str) -> None:
    """End a lost claim: the job is requeued, or fails after `MAX_LOSSES`.

    ``lost`` is a clause that says what was lost. Raises `LeaseLost` when the claim has ended.
    """
    losses = job.losses + 1
    if job.cancel_requested_at is not None:
        move_job(session, job, JobStatus.CANCELLED, f"Cancelled; its {lost}", phase=None)
    elif losses >= MAX_LOSSES:
        message = f"{lost}; that was the job's loss number {losses}"
        fail_job(session, job, JobError(code="worker_lost", message=message))
    elif job.status is JobStatus.VALIDATING_FILES:
        release_validation(session, job, f"The {lost}; validation restarts", losses=losses)
    else:
        message = f"The {lost}; the job resumes from its last checkpoint"
        move_job(session, job, JobStatus.QUEUED, message, level="warn", phase=None, losses=losses)
        add_wake_up(session, job.queue)


def wake_waiting_queues(session: Session, older_than_seconds: float) -> int:
    """Send a wake-up to every served queue that has a waiting job and no pending wake-up.

    This replaces messages that the broker or a killed worker lost. Queues without a live worker
    get none, because messages would pile up in the broker; a worker wakes itself when it starts.
    Returns the number sent.
    """
    served = {queue for worker in live_workers(session) for queue in worker.queues}
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
        wanted = [name for name in names if name in served]
        for name in wanted:
            add_wake_up(session, name)
        woken += len(wanted)
    return woken


def explain_waiting(session: Session) -> None:
    """Set the ``queue_reason`` of every queued job: no worker can run it, or others are first.

    The worker itself sets the reason of the first in line: the devices that it waits for.
    """
    workers = live_workers(session)
    waiting = session.execute(
        select(JobRow.id, JobRow.queue, JobRow.gpus, JobRow.queue_reason)
        .where(JobRow.status == JobStatus.QUEUED.value)
        .order_by(JobRow.seq)  # one order for all writers prevents deadlocks
    ).all()
    for job_id, queue, gpus, reason in waiting:
        missing = _missing(queue, gpus, [worker for worker in workers if queue in worker.queues])
        outdated = reason is not None and reason.startswith("no ")
        wanted = missing or (None if outdated else reason) or ITS_TURN
        if wanted != reason:
            session.execute(
                update(JobRow)
                .where(JobRow.id == job_id, JobRow.status == JobStatus.QUEUED.value)
                .values(queue_reason=wanted)
            )


def _missing(queue: str, gpus: int | None, serving: list[WorkerRow]) -> str | None:
    if not serving:
        return f"no {queue} worker is running"
    if gpus and all(len(worker.gpus) < gpus for worker in serving):
        return f"no running {queue} worker has {gpus} GPUs"
    if gpus == 0 and not any(worker.cpu_slots for worker in serving):
        return f"no running {queue} worker has a CPU slot"
    return None
