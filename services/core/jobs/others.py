"""Jobs that wait for devices which another job holds."""

from sqlalchemy import exists, or_, select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.tables import JobRow, WorkerRow
from services.core.jobs.claims import SHORT_OF_DEVICES, Claim
from services.core.jobs.workers import live_workers


def jobs_wait_for(session: Session, claim: Claim) -> bool:
    """Whether a queued job lacks devices of the kind and host of those that ``claim`` holds.

    A worker has found the job short of them; one that is merely new may still find others free.
    """
    worker = session.get(WorkerRow, claim.job.owner)
    if worker is None:
        return False
    workers = [row for row in live_workers(session) if row.host == worker.host]
    queues = {queue for row in workers for queue in row.queues}
    has_gpus = any(row.gpus for row in workers)
    fits = JobRow.gpus >= 1 if claim.gpus else JobRow.gpus == 0
    if bool(claim.gpus) == has_gpus:  # where a job goes that leaves it open
        fits = or_(fits, JobRow.gpus.is_(None))
    waiting = exists().where(
        JobRow.status == JobStatus.QUEUED.value,
        JobRow.queue.in_(queues),
        JobRow.queue_reason.startswith(SHORT_OF_DEVICES),
        fits,
    )
    return bool(session.scalar(select(waiting)))
