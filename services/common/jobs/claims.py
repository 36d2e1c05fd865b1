"""Claiming jobs and keeping the claim: compare-and-set on status and epoch."""

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from services.common.contracts.jobs import JobStatus
from services.common.db.tables import JobRow
from services.common.gpu.inventory import HostDevices
from services.common.gpu.leases import free_devices, hold_devices
from services.common.jobs.events import append_event
from services.common.jobs.job import Job, job_from_row
from services.common.jobs.status import LeaseLost
from services.common.jobs.store import get_job

LOOK_AHEAD = 100
"""How many waiting jobs of a queue are looked at for one that this host can ever run."""


class Stage(StrEnum):
    """What a claim allows its worker to do."""

    VALIDATION = "validation"
    WORK = "work"


@dataclass(frozen=True)
class Claimant:
    """Who claims: a worker, the devices of its host, and how long its leases last."""

    owner: str
    devices: HostDevices
    lease_seconds: float


@dataclass(frozen=True)
class Claim:
    """The right of one worker to bring a job forward, until its lease expires."""

    job: Job
    stage: Stage
    devices: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """The devices that are GPUs."""
        return tuple(device for device in self.devices if not device.startswith("cpu-"))


def claim_validation(session: Session, queue: str, claimant: Claimant) -> Claim | None:
    """Claim the oldest job whose files nobody is validating."""
    query = (
        select(JobRow)
        .where(
            JobRow.status == JobStatus.VALIDATING_FILES.value,
            JobRow.validation_queue == queue,
            JobRow.owner.is_(None),
        )
        .order_by(JobRow.priority.desc(), JobRow.seq)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = session.scalar(query)
    if row is None:
        return None
    job = _take(session, job_from_row(row), claimant)
    return Claim(job, Stage.VALIDATION)


def claim_work(
    session: Session, queue: str, claimant: Claimant, occupied: Collection[str]
) -> Claim | None:
    """Claim the first queued job with the devices it needs; highest priority, then oldest.

    A job that must wait for devices of this host is not overtaken by later ones, so that large
    jobs are not starved; its ``queue_reason`` then says what it waits for. GPUs in ``occupied``
    are in use by somebody else and count as taken.
    """
    devices = claimant.devices
    for job in _queued(session, queue):
        wanted, pool = _demand(job, devices)
        if wanted > len(pool):
            continue  # never on this host
        free = [device for device in free_devices(session, pool) if device not in occupied]
        if len(free) < wanted:
            _explain_wait(session, job, wanted, len(free), devices)
            return None
        claimed = _take(session, job, claimant)
        hold_devices(session, devices, job.id, claimed.epoch, free[:wanted])
        return Claim(claimed, Stage.WORK, tuple(free[:wanted]))
    return None


def renew_lease(session: Session, claim: Claim, lease_seconds: float) -> Job:
    """Extend a claim and return the job as it stands; raise `LeaseLost` when it was taken."""
    job = claim.job
    renewed = session.scalar(
        update(JobRow)
        .where(JobRow.id == job.id, JobRow.epoch == job.epoch, JobRow.owner == job.owner)
        .values(lease_expires_at=time.time() + lease_seconds)
        .returning(JobRow.id)
    )
    if renewed is None:
        raise LeaseLost(f"job {job.id} was taken from {job.owner} in epoch {job.epoch}")
    return get_job(session, job.id)


def check_claim(session: Session, claim: Claim) -> Job:
    """Lock and return the job of a claim; raise `LeaseLost` when the claim no longer holds."""
    job = get_job(session, claim.job.id, lock=True)
    if job.epoch != claim.job.epoch or job.owner != claim.job.owner:
        raise LeaseLost(f"job {job.id} was taken from {claim.job.owner} in epoch {claim.job.epoch}")
    return job


def _queued(session: Session, queue: str) -> Iterator[Job]:
    rows = session.scalars(
        select(JobRow)
        .where(JobRow.status == JobStatus.QUEUED.value, JobRow.queue == queue)
        .order_by(JobRow.priority.desc(), JobRow.seq)
        .limit(LOOK_AHEAD)
    ).all()
    return (job_from_row(row) for row in rows)


def _demand(job: Job, devices: HostDevices) -> tuple[int, list[str]]:
    """How many of which devices a job needs here."""
    gpus = job.gpus if job.gpus is not None else min(1, len(devices.gpus))
    return (gpus, list(devices.gpus)) if gpus else (1, devices.slot_ids())


def _explain_wait(session: Session, job: Job, wanted: int, free: int, devices: HostDevices) -> None:
    gpus = job.gpus if job.gpus is not None else min(1, len(devices.gpus))
    noun = ("GPU" if wanted == 1 else "GPUs") if gpus else "CPU slot"
    reason = f"waiting for {wanted} {noun}; {free} free on {devices.host}"
    if job.queue_reason != reason:
        session.execute(
            update(JobRow)
            .where(JobRow.id == job.id, JobRow.status == JobStatus.QUEUED.value)
            .values(queue_reason=reason)
        )


def _take(session: Session, job: Job, claimant: Claimant) -> Job:
    now = time.time()
    working = job.status is JobStatus.QUEUED
    changes = {
        "owner": claimant.owner,
        "epoch": job.epoch + 1,
        "lease_expires_at": now + claimant.lease_seconds,
        "updated_at": now,
        "queue_reason": None,
        "phase": "starting" if working else "validating",
    }
    if working:
        changes |= {
            "status": JobStatus.RUNNING.value,
            "attempt": job.attempt + 1,
            "started_at": job.started_at or now,
        }
    taken = session.scalar(
        update(JobRow)
        .where(
            JobRow.id == job.id,
            JobRow.status == job.status.value,
            JobRow.epoch == job.epoch,
            or_(JobRow.owner.is_(None), JobRow.status == JobStatus.QUEUED.value),
        )
        .values(**changes)
        .returning(JobRow.id)
    )
    if taken is None:
        raise LeaseLost(f"job {job.id} was claimed by another worker")
    if working:
        append_event(session, job.id, f"Attempt {job.attempt + 1} started on {claimant.owner}")
    return get_job(session, job.id)
