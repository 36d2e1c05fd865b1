"""What the end of a child means for its job."""

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.common.contracts.jobs import JobError, JobStatus
from services.common.gpu.leases import release_devices
from services.common.jobs.claims import Claim, Stage, check_claim
from services.common.jobs.job import Job
from services.common.jobs.outbox import add_wake_up
from services.common.jobs.reconcile import wake_waiting_queues
from services.common.jobs.store import fail_job, move_job, release_validation
from services.common.process.reporter import RESULT
from services.common.worker.handler import Handler


@dataclass(frozen=True)
class Ending:
    """How a child ended. ``result`` is what it left on purpose, None when it left nothing."""

    returncode: int
    result: dict[str, Any] | None
    cancelled: bool
    stopping: bool
    log_tail: list[str]


def read_result(job_dir: Path) -> dict[str, Any] | None:
    """Return the child's result, or None when it ended without one."""
    try:
        result = json.loads((job_dir / RESULT).read_text())
    except (FileNotFoundError, ValueError):
        return None
    return result if isinstance(result, dict) else None


def settle(session: Session, claim: Claim, handler: Handler, ending: Ending) -> None:
    """Move the job to where its ending puts it and free its devices, in one transaction.

    A result counts even when a cancellation came too late to prevent it. Raises `LeaseLost`
    when the claim no longer holds.
    """
    job = check_claim(session, claim)
    result = ending.result
    if result is not None and result.get("status") == "succeeded":
        _succeed(session, claim, job, handler, result)
    elif ending.cancelled or job.cancel_requested_at is not None:
        move_job(session, job, JobStatus.CANCELLED, "Cancelled", phase=None)
    elif result is None and ending.stopping:
        _give_back(session, claim, job)
    else:
        fail_job(session, job, _cause(result, ending.returncode), {"log_tail": ending.log_tail})
    _free_devices(session, job)


def settle_failure(session: Session, claim: Claim, error: JobError) -> None:
    """Fail a job whose child could not be started or followed."""
    job = check_claim(session, claim)
    fail_job(session, job, error)
    _free_devices(session, job)


def _free_devices(session: Session, job: Job) -> None:
    if release_devices(session, job.id, job.epoch):
        # Jobs of any queue may have waited for them.
        wake_waiting_queues(session, older_than_seconds=0.0)


def _succeed(
    session: Session, claim: Claim, job: Job, handler: Handler, result: dict[str, Any]
) -> None:
    if claim.stage is Stage.VALIDATION:
        message = "Files are valid; job queued"
        move_job(
            session,
            job,
            JobStatus.QUEUED,
            message,
            phase=None,
            reports_offset=0,
            step=None,
            total_steps=None,
        )
        add_wake_up(session, job.queue)
        return
    kept = handler.complete(session, job, result)
    move_job(
        session,
        job,
        JobStatus.SUCCEEDED,
        "Succeeded",
        result=kept,
        phase=None,
        step=job.total_steps or job.step,
    )


def _give_back(session: Session, claim: Claim, job: Job) -> None:
    """The worker shuts down in order: somebody else goes on, and nothing is held against it."""
    if claim.stage is Stage.VALIDATION:
        release_validation(session, job, "The worker is shutting down")
        return
    message = "The worker is shutting down; the job goes on from its last checkpoint"
    move_job(session, job, JobStatus.QUEUED, message, level="warn", phase=None)
    add_wake_up(session, job.queue)


def _cause(result: dict[str, Any] | None, returncode: int) -> JobError:
    """The one line that says why: the child's own, or what its exit code tells."""
    if result is not None:
        error = result.get("error") or {}
        return JobError(
            code=str(error.get("code") or "failed"),
            message=str(error.get("message") or "the process gave no reason"),
            param=error.get("param"),
        )
    if returncode >= 0:
        return JobError(
            code="process_crashed", message=f"the process ended with code {returncode}, no result"
        )
    number = -returncode
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = str(number)
    hint = "; the kernel kills so when memory is short" if number == signal.SIGKILL else ""
    return JobError(code="process_killed", message=f"the process was killed by {name}{hint}")
