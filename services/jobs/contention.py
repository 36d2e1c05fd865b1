"""Contention for devices: who waits for those of whom."""

from collections.abc import Sequence

from sqlalchemy import exists, or_, select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.tables import AttemptRow, JobRow, WorkerRow
from services.jobs.claims import SHORT_OF_DEVICES, Claim
from services.jobs.devices import CPU_SLOT, REMOTE
from services.jobs.job import Job, job_from_row
from services.jobs.workers import live_workers

_SLOTS = {"CPU slot": CPU_SLOT, "remote slot": REMOTE}
"""How the devices of each sort begin; the others are GPUs."""


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


def jobs_in_the_way(session: Session, jobs: Sequence[Job], most: int) -> dict[str, list[Job]]:
    """Up to ``most`` running jobs, by the id of each of ``jobs`` that waits for their devices.

    Those that should end first come first.
    """
    waiting = [
        job
        for job in jobs
        if job.status is JobStatus.QUEUED and (job.queue_reason or "").startswith(SHORT_OF_DEVICES)
    ]
    if not waiting:
        return {}
    hosts: dict[str, set[str]] = {}
    for worker in live_workers(session):
        for queue in worker.queues:
            hosts.setdefault(queue, set()).add(worker.host)
    held = session.execute(
        select(JobRow, AttemptRow)
        .join(AttemptRow, AttemptRow.job_id == JobRow.id)
        .where(JobRow.status == JobStatus.RUNNING.value, AttemptRow.ended_at.is_(None))
        .order_by(AttemptRow.started_at)
    )
    running = sorted(((job_from_row(row), attempt) for row, attempt in held), key=_end)
    return {
        job.id: [
            other
            for other, attempt in running
            if attempt.host in hosts.get(job.queue, ()) and _are_wanted(attempt.devices, job)
        ][:most]
        for job in waiting
    }


def _end(running: tuple[Job, AttemptRow]) -> tuple[bool, float]:
    """Orders running jobs by their end; those that do not know it come last."""
    eta = running[0].eta_seconds
    return eta is None, eta or 0.0


def _are_wanted(devices: Sequence[str], job: Job) -> bool:
    """Whether some devices are of the sort, or are the ones, that a job waits for."""
    reason = str(job.queue_reason)
    if job.devices is not None:
        return any(device in reason for device in devices)
    beginning = next((_SLOTS[sort] for sort in _SLOTS if sort in reason), None)
    if beginning is None:
        return any(not device.startswith(tuple(_SLOTS.values())) for device in devices)
    return any(device.startswith(beginning) for device in devices)
