"""Claiming jobs and renewing claims: compare-and-set on status and epoch."""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, or_, select, update
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.engine import advisory_lock, now
from services.core.db.tables import JobRow, WorkerRow
from services.jobs.attempts import begin_attempt
from services.jobs.devices import (
    CPU_SLOT,
    REMOTE,
    HostDevices,
    free_devices,
    hold_devices,
    holders,
    named_devices,
)
from services.jobs.events import append_event
from services.jobs.job import REMOTE_SLOT, Job, LeaseLost, job_from_row
from services.jobs.queues import wake_once
from services.jobs.store import get_job
from services.jobs.workers import live_workers

LOOK_AHEAD = 20
"""How many jobs are tried when workers of other hosts are claiming them at the same time."""
PAGES = 50
"""Factor by which more jobs are read when they name devices of other hosts."""


SHORT_OF_DEVICES = "waiting for "
"""Prefix of the ``queue_reason`` of a job that lacks only free devices."""


class ClaimStage(StrEnum):
    """The part of a job that a claim is for."""

    VALIDATION = "validation"
    WORK = "work"


@dataclass(frozen=True)
class Claimant:
    """A worker, the devices of its host, and the duration of its leases."""

    owner: str
    devices: HostDevices
    lease_seconds: float


@dataclass(frozen=True)
class Claim:
    """The exclusive right of a worker to advance a job, until its lease expires."""

    job: Job
    stage: ClaimStage
    devices: tuple[str, ...] = ()

    @property
    def gpus(self) -> tuple[str, ...]:
        """The devices that are GPUs."""
        slots = (CPU_SLOT, REMOTE)
        return tuple(device for device in self.devices if not device.startswith(slots))

    @property
    def cpu_slots(self) -> tuple[str, ...]:
        """The devices that are CPU slots."""
        return tuple(device for device in self.devices if device.startswith(CPU_SLOT))


def claim_validation(session: Session, queues: Collection[str], claimant: Claimant) -> Claim | None:
    """Claim the job whose files are validated next: highest priority, then oldest."""
    query = (
        select(JobRow)
        .where(
            JobRow.status == JobStatus.VALIDATING_FILES.value,
            JobRow.validation_queue.in_(queues),
            JobRow.owner.is_(None),
            _may_start(session),
        )
        .order_by(JobRow.priority.desc(), JobRow.seq)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = session.scalar(query)
    if row is None:
        return None
    job = _take(session, job_from_row(row), claimant)
    return Claim(job, ClaimStage.VALIDATION)


def claim_work(
    session: Session, queues: Collection[str], claimant: Claimant, occupied: Collection[str]
) -> Claim | None:
    """Claim the next job of ``queues`` with the devices it needs: highest priority, then oldest.

    The order holds for all kinds on this host: devices that an earlier job of another worker's
    queue needs are left to that worker, which is woken. A job that waits for GPUs of this host is
    not overtaken by later ones that need GPUs, so that large jobs do not starve; its
    ``queue_reason`` says what it waits for. The same holds for CPU and remote slots. A job that
    names its devices waits for exactly them, which later jobs do not get; others may be theirs.
    GPUs in ``occupied`` are used by other programs and count as taken.
    """
    advisory_lock(session, claimant.devices.host)
    others = [row for row in live_workers(session) if row.host == claimant.devices.host]
    for pool in _pools(claimant.devices):
        claim = _claim_from(session, pool, queues, others, claimant, occupied)
        if claim is not None:
            return claim
    return None


def renew_lease(session: Session, claim: Claim, lease_seconds: float) -> Job:
    """Extend a claim and return the job; raise `LeaseLost` when another worker has taken it."""
    job = claim.job
    renewed = session.scalar(
        update(JobRow)
        .where(JobRow.id == job.id, JobRow.epoch == job.epoch, JobRow.owner == job.owner)
        .values(lease_expires_at=now(session) + lease_seconds)
        .returning(JobRow.id)
    )
    if renewed is None:
        raise LeaseLost(f"job {job.id} was taken from {job.owner} in epoch {job.epoch}")
    return get_job(session, job.id)


def check_claim(session: Session, claim: Claim, *, lock: bool = True) -> Job:
    """Return the job of a claim, locked if asked; raise `LeaseLost` when the claim has ended."""
    job = get_job(session, claim.job.id, lock=lock)
    if job.epoch != claim.job.epoch or job.owner != claim.job.owner:
        raise LeaseLost(f"job {job.id} was taken from {claim.job.owner} in epoch {claim.job.epoch}")
    return job


@dataclass(frozen=True)
class _Pool:
    """The devices of one type on this host, and which jobs fit on them."""

    noun: str
    devices: Sequence[str]
    fits: ColumnElement[bool]


def _pools(devices: HostDevices) -> Iterator[_Pool]:
    unspecified = JobRow.gpus.is_(None)
    if devices.gpus:
        fits = or_(JobRow.gpus.between(1, len(devices.gpus)), unspecified)
        yield _Pool("GPU", devices.gpus, fits)
    if devices.cpu_slots:
        none = JobRow.gpus == 0
        yield _Pool("CPU slot", devices.slot_ids(), none if devices.gpus else none | unspecified)
    if devices.remote_slots:
        yield _Pool("remote slot", devices.remote_slot_ids(), JobRow.gpus == REMOTE_SLOT)


def _claim_from(
    session: Session,
    pool: _Pool,
    queues: Collection[str],
    others: Sequence[WorkerRow],
    claimant: Claimant,
    occupied: Collection[str],
) -> Claim | None:
    free = [device for device in free_devices(session, pool.devices) if device not in occupied]
    host = claimant.devices.host
    for job in _queued(session, {*queues, *(name for row in others for name in row.queues)}, pool):
        is_ours = job.queue in queues
        if not is_ours and not _can_run(job, pool, others):
            continue
        if job.devices is not None:
            chosen = named_devices(job.devices, pool.devices) or []
            if taken := [device for device in chosen if device not in free]:
                _explain_wait(session, job, SHORT_OF_DEVICES + _describe_holders(session, taken))
                free = [device for device in free if device not in chosen]  # kept for it
                continue
        else:
            wanted = max(1, job.gpus or 1)
            if len(free) < wanted:
                noun = pool.noun if wanted == 1 else f"{pool.noun}s"
                lacking = f"{wanted} {noun}; {len(free)} free on {host}"
                _explain_wait(session, job, SHORT_OF_DEVICES + lacking)
                return None
            chosen = free[:wanted]
        if not is_ours:
            wake_once(session, job.queue)
            free = [device for device in free if device not in chosen]
            continue
        if not _still_waits(session, job):
            continue  # a worker of another host was faster
        claimed = _take(session, job, claimant)
        hold_devices(session, claimant.devices, job.id, claimed.epoch, chosen)
        begin_attempt(session, claimed, host, chosen)
        return Claim(claimed, ClaimStage.WORK, tuple(chosen))
    return None


def _describe_holders(session: Session, taken: Sequence[str]) -> str:
    """Which devices are taken, and by whom; the rest are reserved for an earlier job."""
    by = holders(session, taken)
    return ", ".join(
        f"{device} (held by {by[device]})" if device in by else f"{device} (in use)"
        for device in taken
    )


def _can_run(job: Job, pool: _Pool, others: Sequence[WorkerRow]) -> bool:
    """Whether another worker of this host can run a job on devices of the pool."""
    serving = [row for row in others if job.queue in row.queues]
    if pool.noun == "GPU":
        if job.devices is not None:
            wanted = set(named_devices(job.devices, pool.devices) or [])
            return any(wanted <= set(row.gpus) for row in serving)
        return any(len(set(row.gpus) & set(pool.devices)) >= (job.gpus or 1) for row in serving)
    if pool.noun == "remote slot":
        return bool(serving)
    return any(row.cpu_slots for row in serving)


def _queued(session: Session, queues: Collection[str], pool: _Pool) -> Iterator[Job]:
    """The first jobs that this host can run."""
    query = (
        select(JobRow)
        .where(
            JobRow.status == JobStatus.QUEUED.value,
            JobRow.queue.in_(queues),
            pool.fits,
            _may_start(session),
        )
        .order_by(JobRow.priority.desc(), JobRow.seq)
        .limit(LOOK_AHEAD)
    )
    found = 0
    for page in range(PAGES):
        rows = session.scalars(query.offset(page * LOOK_AHEAD)).all()
        for job in map(job_from_row, rows):
            if job.devices is None or named_devices(job.devices, pool.devices) is not None:
                yield job
                found += 1
        if found >= LOOK_AHEAD or len(rows) < LOOK_AHEAD:
            return


def _may_start(session: Session) -> ColumnElement[bool]:
    """Excludes jobs that wait to be retried."""
    return or_(JobRow.not_before.is_(None), JobRow.not_before <= now(session))


def _still_waits(session: Session, job: Job) -> bool:
    """Lock a queued job; false when it has changed or another worker is changing it."""
    query = select(JobRow.id).where(
        JobRow.id == job.id, JobRow.status == JobStatus.QUEUED.value, JobRow.epoch == job.epoch
    )
    return session.scalar(query.with_for_update(skip_locked=True)) is not None


def _explain_wait(session: Session, job: Job, reason: str) -> None:
    if job.queue_reason != reason and _still_waits(session, job):
        session.execute(update(JobRow).where(JobRow.id == job.id).values(queue_reason=reason))


def _take(session: Session, job: Job, claimant: Claimant) -> Job:
    if job.status is not JobStatus.QUEUED:
        return take_job(session, job, claimant, phase="validating")
    attempt = job.attempt + 1
    taken = take_job(session, job, claimant, phase="starting", attempt=attempt)
    append_event(session, job.id, f"Attempt {attempt} started on {claimant.owner}")
    return taken


def take_job(session: Session, job: Job, claimant: Claimant, **changes: Any) -> Job:
    """Give a waiting job to a worker: compare-and-set on status and epoch; a queued one then runs.

    Raises `LeaseLost` when another worker was faster.
    """
    started = time.time()
    if job.status is JobStatus.QUEUED:
        changes |= {"status": JobStatus.RUNNING.value, "started_at": job.started_at or started}
    taken = session.scalar(
        update(JobRow)
        .where(
            JobRow.id == job.id,
            JobRow.status == job.status.value,
            JobRow.epoch == job.epoch,
            or_(JobRow.owner.is_(None), JobRow.status == JobStatus.QUEUED.value),
        )
        .values(
            owner=claimant.owner,
            epoch=job.epoch + 1,
            lease_expires_at=now(session) + claimant.lease_seconds,
            updated_at=started,
            queue_reason=None,
            not_before=None,
            **changes,
        )
        .returning(JobRow.id)
    )
    if taken is None:
        raise LeaseLost(f"job {job.id} was claimed by another worker")
    return get_job(session, job.id)
