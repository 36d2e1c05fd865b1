"""Repair after crashes, and the end of what waits too long. Every function may run at any time, in
several processes."""

import time
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import and_, exists, func, or_, select, update
from sqlalchemy.orm import Session

from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import now
from services.core.db.tables import CheckpointRow, JobRow, OutboxRow, ResourceLeaseRow, WorkerRow
from services.core.process.supervised import tree_name
from services.jobs.devices import named_devices, release_devices
from services.jobs.job import ITS_TURN, NO_DEVICE, Job, LeaseLost, deadline_error, job_from_row
from services.jobs.queues import add_wake_up
from services.jobs.store import fail_job, move_job, release_validation
from services.jobs.workers import live_workers

MAX_LOSSES = 3
"""The job fails after this many lost attempts without progress in between."""

START_WORKERS = ": temper up starts the workers"

KILL_SECONDS = 2.0
"""Upper bound of the time that killing takes after the grace period."""


_UNFINISHED = [status.value for status in JobStatus if not status.is_final]


def is_any_under_way(session: Session) -> bool:
    """Whether there is a job that has not ended, or a device that is leased."""
    unfinished = exists().where(JobRow.status.in_(_UNFINISHED))
    leased = exists().where(ResourceLeaseRow.resource_id.is_not(None))
    return bool(session.scalar(select(or_(unfinished, leased))))


_WAITING = (JobStatus.VALIDATING_FILES, JobStatus.QUEUED, JobStatus.PAUSED)


def fail_overdue(session: Session) -> int:
    """Fail the jobs that wait past their deadline; return their number.

    The worker of a running one first asks it for a checkpoint. Both keep their checkpoints.
    """
    overdue = session.scalars(
        select(JobRow)
        .where(
            JobRow.deadline_at <= now(session),
            JobRow.owner.is_(None),
            JobRow.status.in_([status.value for status in _WAITING]),
        )
        .with_for_update(skip_locked=True)
    ).all()
    for job in [job_from_row(row) for row in overdue]:
        fail_job(session, job, deadline_error(job))
    return len(overdue)


def recover_expired(session: Session, grace_seconds: float) -> int:
    """Requeue jobs of workers whose lease has expired; return their number.

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
    alive = {worker.id for worker in live_workers(session)}
    for job in [job_from_row(row) for row in expired]:
        lost = JobError(code="worker_lost", message=f"worker {job.owner} was lost")
        try:
            # A live worker lost its lease to an outage of the database: not the job's fault.
            give_up_claim(session, job, lost, counts=job.owner not in alive)
        except LeaseLost:
            continue  # its worker has come back
    return len(expired)


def recover_from(session: Session, worker_id: str, running: Collection[str]) -> int:
    """Requeue the jobs of a dead worker, except those whose process tree is ``running``; return how
    many.

    Their devices are released immediately.
    """
    rows = session.scalars(
        select(JobRow)
        .where(
            JobRow.owner == worker_id,
            JobRow.status.in_([JobStatus.RUNNING.value, JobStatus.VALIDATING_FILES.value]),
        )
        .order_by(JobRow.seq)
        .with_for_update()
    ).all()
    ended = [job for job in map(job_from_row, rows) if tree_name(job.id, job.epoch) not in running]
    for job in ended:
        lost = JobError(code="worker_lost", message=f"worker {worker_id} was lost")
        give_up_claim(session, job, lost)
        release_devices(session, job.id, job.epoch)
    if ended:
        wake_waiting_queues(session, older_than_seconds=0.0)
    return len(ended)


def give_up_claim(
    session: Session,
    job: Job,
    cause: JobError,
    *,
    counts: bool = True,
    retry_seconds: float = 0.0,
    data: dict[str, Any] | None = None,
    max_losses: int = MAX_LOSSES,
) -> None:
    """End a claim whose attempt was lost: requeue the job, or fail it with the ``cause``.

    Losses that ``counts`` are counted since the last progress: a new checkpoint, or further steps
    of a job without checkpoints; ``max_losses`` fail the job. The next attempt waits
    ``retry_seconds``, doubled with each loss (exponential backoff); ``data`` goes with the event.
    Raises `LeaseLost` when the claim has ended.
    """
    progress = _progress(session, job)
    losses = (0 if progress > job.progress else job.losses) + counts
    if job.cancel_requested_at is not None:
        move_job(session, job, JobStatus.CANCELLED, f"Cancelled; {cause.message}", phase=None)
        return
    progress = max(progress, job.progress)
    if job.pause_requested_at is not None and job.status is JobStatus.RUNNING:
        message = f"Paused; {cause.message}; the job will resume from its last checkpoint"
        kept: dict[str, Any] = {"phase": None, "losses": losses, "progress": progress}
        move_job(session, job, JobStatus.PAUSED, message, level="warn", data=data, **kept)
        return
    if losses >= max_losses:
        message = f"{cause.message}; {losses} attempts were lost without progress"
        fail_job(session, job, cause.model_copy(update={"message": message}), data)
        return
    delay = retry_seconds * 2 ** max(0, losses - 1)
    again = f"in {delay:.0f} s" if delay else "now"
    not_before = now(session) + delay if delay else None
    if job.status is JobStatus.VALIDATING_FILES:
        message = f"{_sentence(cause)}; validation restarts {again}"
        release_validation(session, job, message, losses=losses, not_before=not_before)
        return
    message = f"{_sentence(cause)}; the job resumes from its last checkpoint {again}"
    changes: dict[str, Any] = {
        "phase": None,
        "losses": losses,
        "progress": progress,
        "not_before": not_before,
        "queue_reason": "waiting to be retried" if delay else None,
    }
    move_job(session, job, JobStatus.QUEUED, message, level="warn", data=data, **changes)
    add_wake_up(session, job.queue)


def _progress(session: Session, job: Job) -> int:
    """How much of a job's work is durable; a validation always restarts."""
    if job.status is JobStatus.VALIDATING_FILES:
        return 0
    checkpoint = session.scalar(
        select(func.max(CheckpointRow.step)).where(CheckpointRow.job_id == job.id)
    )
    return checkpoint or job.step or 0


def _sentence(cause: JobError) -> str:
    return cause.message[:1].upper() + cause.message[1:]


def wake_waiting_queues(session: Session, older_than_seconds: float) -> int:
    """Send a wake-up to every served queue with a waiting job and no pending wake-up.

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
                or_(JobRow.not_before.is_(None), JobRow.not_before <= now(session)),
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
    """Set the ``queue_reason`` of every job that waits: no worker can run it, or others come first.

    The worker itself sets the reason of the first in line: the devices that it waits for. A job
    whose files wait to be checked has a reason only without a worker to do it.
    """
    workers = live_workers(session)
    status, reason = JobRow.status, JobRow.queue_reason
    unclaimed = and_(status == JobStatus.VALIDATING_FILES.value, JobRow.owner.is_(None))
    waiting = session.execute(
        select(JobRow.id, status, JobRow.queue, JobRow.validation_queue, reason)
        .add_columns(JobRow.gpus, JobRow.request["devices"])
        .where(or_(status == JobStatus.QUEUED.value, unclaimed))
        .order_by(JobRow.seq)  # one order for all writers prevents deadlocks
    ).all()
    for job_id, held, queue, validation_queue, known, gpus, devices in waiting:
        outdated = known is not None and known.startswith("no ")
        kept = None if outdated else known
        if held == JobStatus.QUEUED.value:
            serving = [worker for worker in workers if queue in worker.queues]
            wanted = _missing(queue, gpus, devices, serving) or kept or ITS_TURN
        elif any(validation_queue in worker.queues for worker in workers):
            wanted = kept
        else:
            wanted = f"no {queue} worker is running to check its files{START_WORKERS}"
        if wanted != known:
            session.execute(
                update(JobRow)
                .where(JobRow.id == job_id, JobRow.status == held)
                .values(queue_reason=wanted)
            )


def _missing(
    queue: str,
    gpus: int | None,
    devices: Sequence[int | str] | None,
    serving: Sequence[WorkerRow],
) -> str | None:
    if not serving:
        return f"no {queue} worker is running{START_WORKERS}"
    if gpus == NO_DEVICE:
        return None  # devices that it names are those of the jobs it will create
    if devices and all(named_devices(devices, worker.gpus) is None for worker in serving):
        named = ", ".join(map(str, devices))
        return f"no running {queue} worker has the GPUs {named}; leave devices out to take any"
    if gpus is not None and gpus > 0 and all(len(worker.gpus) < gpus for worker in serving):
        return f"no running {queue} worker has {gpus} GPUs; ask for fewer, or add a host"
    if gpus == 0 and not any(worker.cpu_slots for worker in serving):
        return f"no running {queue} worker has a CPU slot; set TEMPER_CPU_SLOTS of one"
    return None
