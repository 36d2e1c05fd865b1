"""Repairing what a crash left behind. Every function is safe to run at any time, by anyone."""

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
"""How many workers a job may lose before it fails."""

ITS_TURN = "waiting for its turn"

KILL_SECONDS = 2.0
"""How long killing takes at most after the grace period, for the takeover to wait for."""


def recover_expired(session: Session, grace_seconds: float) -> int:
    """Take jobs from workers that were silent past their lease; return how many.

    The watchdog of a silent worker ends its processes at the expiry of the lease, and kills them
    after the grace period: only then may another worker begin.
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
            continue  # its worker came back in the meantime
    return len(expired)


def give_up_claim(session: Session, job: Job, lost: str) -> None:
    """End a claim that was lost: somebody else goes on, unless that happened too often.

    ``lost`` says in a clause what was lost. Raises `LeaseLost` when the claim has ended already.
    """
    losses = job.losses + 1
    if job.cancel_requested_at is not None:
        move_job(session, job, JobStatus.CANCELLED, f"Cancelled; its {lost}", phase=None)
    elif losses >= MAX_LOSSES:
        message = f"{lost}; that was the job's loss number {losses}"
        fail_job(session, job, JobError(code="worker_lost", message=message))
    elif job.status is JobStatus.VALIDATING_FILES:
        release_validation(session, job, f"The {lost}; validation starts again", losses=losses)
    else:
        message = f"The {lost}; the job goes on from its last checkpoint"
        move_job(session, job, JobStatus.QUEUED, message, level="warn", phase=None, losses=losses)
        add_wake_up(session, job.queue)


def wake_waiting_queues(session: Session, older_than_seconds: float) -> int:
    """Send one more wake-up to every served queue with a waiting job and none on its way.

    This replaces messages that a broker or a killed worker lost. A queue without a live worker
    gets none, or they would pile up in the broker; a worker wakes itself when it starts. Returns
    the number sent.
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
    """Tell every queued job what it waits for: a worker that can run it, or its turn.

    The first in line is told by its worker which devices it waits for.
    """
    workers = live_workers(session)
    waiting = session.execute(
        select(JobRow.id, JobRow.queue, JobRow.gpus, JobRow.queue_reason)
        .where(JobRow.status == JobStatus.QUEUED.value)
        .order_by(JobRow.seq)  # one order for all writers, so that none waits for another
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
