"""Contention for devices: whether other jobs wait for those of a running one."""

from sqlalchemy import exists, or_, select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.tables import JobRow, WorkerRow
from services.core.jobs.claims import SHORT_OF_DEVICES, Claim
from services.core.jobs.workers import live_workers


def has_waiters(session: Session, claim: Claim) -> bool:
    """Whether a queued job lacks devices of the kind and host of those that ``claim`` holds.

    Only jobs that a worker could not start count: a new one may still find free devices.
    """
    worker = session.get(WorkerRow, claim.job.owner)
    if worker is None:
        return False
    workers = [row for row in live_workers(session) if row.host == worker.host]
    queues = {queue for row in workers for queue in row.queues}
    has_gpus = any(row.gpus for row in workers)
    fits = JobRow.gpus >= 1 if claim.gpus else JobRow.gpus == 0
    if bool(claim.gpus) == has_gpus:  # null takes a GPU where the host has any
        fits = or_(fits, JobRow.gpus.is_(None))
    waiting = exists().where(
        JobRow.status == JobStatus.QUEUED.value,
        JobRow.queue.in_(queues),
        JobRow.queue_reason.startswith(SHORT_OF_DEVICES),
        fits,
    )
    return bool(session.scalar(select(waiting)))
