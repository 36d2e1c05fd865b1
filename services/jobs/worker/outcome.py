"""How the exit of a child changes its job."""

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.orm import Session

from services.contracts.failures import FailureCode, OutageReport
from services.contracts.jobs import JobError, JobStatus, RowProblem
from services.core.db.engine import now
from services.core.process.reporter import NEEDS_DEVICE, PAUSED, RESULT
from services.jobs.claims import Claim, ClaimStage, check_claim
from services.jobs.devices import release_devices
from services.jobs.events import storable
from services.jobs.job import REMOTE_SLOT, Job, deadline_error
from services.jobs.queues import add_wake_up
from services.jobs.reconcile import give_up_claim, wake_waiting_queues
from services.jobs.store import fail_job, move_job, release_validation, saved_step
from services.jobs.tracking.tracker import End
from services.jobs.worker.handler import ChecksInput, Handler
from services.jobs.worker.reports import open_child_file
from services.jobs.worker.stalls import Stall

MAX_RESULT_BYTES = 4 << 20
LAST_LINES = 3
HUNG_ATTEMPTS = 2
"""Attempts of a job that hangs without progress between them."""
OUT_OF_MEMORY = ("MemoryError", "numpy._core._exceptions._ArrayMemoryError", "pyarrow.lib.ArrowMem")
STORAGE_FULL = ("No space left on device", "Disk quota exceeded")
"""Last lines of Python tracebacks, by the resource that ran out."""

_ROWS = TypeAdapter(list[RowProblem])


@dataclass(frozen=True)
class ChildExit:
    """How a child ended. ``result`` is its result.json, None without one.

    ``cancelled``, ``paused``, ``overdue``, ``stopping`` and ``expired``: it was stopped by the
    user's cancellation or pause, at the job's deadline, by the shutdown of its worker, by the
    expiry of its lease.
    ``unsupervised``: it was killed because its watchdog died; ``exhausted``: because its processes
    held too much memory (``tree``) or the machine had none left (``machine``). ``disk_full``: the
    file system of the job's folder is full. ``stall``: it was stopped because it hung.
    """

    returncode: int
    result: dict[str, Any] | None
    cancelled: bool
    stopping: bool
    expired: bool
    log_tail: list[str]
    unsupervised: bool = False
    paused: bool = False
    overdue: bool = False
    exhausted: str | None = None
    disk_full: bool = False
    stall: Stall | None = None


def read_result(job_dir: Path) -> dict[str, Any] | None:
    """Return the child's result, None when it left none; an unreadable one counts as a failure."""
    try:
        with open_child_file(job_dir / RESULT) as file:
            content = file.read(MAX_RESULT_BYTES + 1)
        if len(content) > MAX_RESULT_BYTES:
            return _bad_result(f"it is larger than {MAX_RESULT_BYTES} bytes")
        result = storable(json.loads(content))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        return _bad_result(str(error))
    return result if isinstance(result, dict) else _bad_result("it is not an object")


def succeeded(result: dict[str, Any] | None) -> bool:
    """Whether a child's result reports success."""
    return result is not None and result.get("status") == "succeeded"


def run_end(child_exit: ChildExit) -> End | None:
    """How the run ends for its trackers; None when another attempt may continue it."""
    if succeeded(child_exit.result):
        return End.SUCCEEDED
    if child_exit.cancelled:
        return End.CANCELLED
    if child_exit.overdue:
        return End.FAILED
    result = child_exit.result or {}
    hung = child_exit.stall is not None
    stopped = child_exit.paused or child_exit.stopping or child_exit.expired or hung
    if stopped or result.get("status") == PAUSED or _is_retryable(child_exit):
        return None
    return End.FAILED


def _bad_result(reason: str) -> dict[str, Any]:
    message = f"the process left a result that cannot be read: {reason}"
    return {"status": "failed", "error": {"code": "bad_result", "message": message}}


def settle(
    session: Session, claim: Claim, handler: Handler, child_exit: ChildExit, retry_seconds: float
) -> None:
    """Change the job's status and release its devices, in one transaction.

    A success counts even after a cancellation, which came too late. A failure does not count when
    the child was stopped, because that may have caused it. Raises `LeaseLost` when the claim has
    ended.
    """
    job = check_claim(session, claim)
    cancelled = child_exit.cancelled or job.cancel_requested_at is not None
    done = succeeded(child_exit.result)
    if done and claim.stage is ClaimStage.WORK:
        _succeed(session, job, handler, child_exit.result or {})
    elif cancelled:
        move_job(session, job, JobStatus.CANCELLED, "Cancelled", phase=None)
    elif done:
        _queue(session, job, handler, child_exit.result or {})
    elif _lacks_device(child_exit) and job.gpus == REMOTE_SLOT:
        _requeue_for_device(session, job)
    elif child_exit.overdue and not _reported_failure(child_exit):
        fail_job(session, job, deadline_error(job))
    elif child_exit.stall is not None:
        _give_up_hung(session, job, child_exit, child_exit.stall, retry_seconds)
    elif _has_paused(claim, job, child_exit):
        _pause(session, job, _outage(child_exit))
    elif child_exit.stopping:
        _requeue(session, claim, job)
    elif child_exit.expired:
        # This worker is alive: it was suspended, or the database was down.
        lost = JobError(code="worker_lost", message=f"the lease of worker {job.owner} expired")
        give_up_claim(session, job, lost, counts=False)
    else:
        cause, data = _cause(child_exit), {"log_tail": child_exit.log_tail}
        if _is_retryable(child_exit):
            give_up_claim(session, job, cause, retry_seconds=retry_seconds, data=data)
        else:
            fail_job(session, job, cause, data)
    _release_devices(session, job)


def settle_failure(session: Session, claim: Claim, error: JobError) -> None:
    """Fail a job whose child could not be started or followed."""
    job = check_claim(session, claim)
    fail_job(session, job, error)
    _release_devices(session, job)


def _give_up_hung(
    session: Session, job: Job, child_exit: ChildExit, stall: Stall, retry_seconds: float
) -> None:
    """Try a job that hung once more from its last checkpoint; fail it if it hangs there again."""
    place = "; ".join(stall.places)
    message = f"{stall.message}; it hangs in {place}" if place else stall.message
    cause = JobError(code=FailureCode.HUNG, message=message)
    data: dict[str, Any] = {"log_tail": child_exit.log_tail, "hangs_in": stall.places}
    if stall.gpus:
        data["gpus"] = [str(use) for use in stall.gpus]
    give_up_claim(
        session, job, cause, retry_seconds=retry_seconds, data=data, max_losses=HUNG_ATTEMPTS
    )


def _release_devices(session: Session, job: Job) -> None:
    if release_devices(session, job.id, job.epoch):
        # Jobs of any queue may wait for them.
        wake_waiting_queues(session, older_than_seconds=0.0)


def _queue(session: Session, job: Job, handler: Handler, validation: dict[str, Any]) -> None:
    """Queue a job whose files are valid; reports and losses are counted from zero for the work.

    It waits for no device when the validation or the handler says that the work needs none.
    """
    needs_device = validation.get(NEEDS_DEVICE) is not False
    if isinstance(handler, ChecksInput):
        needs_device = handler.needs_device(session, job, validation) and needs_device
    fresh: dict[str, Any] = {"reports_offset": 0, "losses": 0, "progress": 0}
    fresh |= {"step": None, "total_steps": None}
    if not needs_device and job.devices is None:
        fresh["gpus"] = REMOTE_SLOT
    if job.pause_requested_at is not None:
        message = "Files are valid; job paused"
        move_job(session, job, JobStatus.PAUSED, message, phase=None, **fresh)
        return
    message = "Files are valid; job queued"
    move_job(session, job, JobStatus.QUEUED, message, phase=None, **fresh)
    add_wake_up(session, job.queue)


def _lacks_device(child_exit: ChildExit) -> bool:
    """Whether the work was begun without a device and needs one to go on."""
    error = (child_exit.result or {}).get("error")
    return isinstance(error, dict) and error.get("code") == NEEDS_DEVICE


def _requeue_for_device(session: Session, job: Job) -> None:
    message = "What answered without a device has ended; the job goes on with one"
    move_job(session, job, JobStatus.QUEUED, message, phase=None, gpus=job.request.get("gpus"))
    add_wake_up(session, job.queue)


def _has_paused(claim: Claim, job: Job, child_exit: ChildExit) -> bool:
    """Whether the child exited for a pause, or for a shutdown while pausing. At a shutdown it saves
    as for a pause, but the job is to go on."""
    if claim.stage is ClaimStage.VALIDATION:
        return False
    if child_exit.stopping:
        return job.pause_requested_at is not None or _outage(child_exit) is not None
    reported = child_exit.result is not None and child_exit.result.get("status") == PAUSED
    return reported or child_exit.paused


def _reported_failure(child_exit: ChildExit) -> bool:
    """Whether the child itself reported a failure."""
    return child_exit.result is not None and child_exit.result.get("status") != PAUSED


def _outage(child_exit: ChildExit) -> OutageReport | None:
    """Why the child paused by itself, if it did."""
    reported = (child_exit.result or {}).get("outage")
    try:
        return None if reported is None else OutageReport.model_validate(reported)
    except ValidationError:
        return None


def _pause(session: Session, job: Job, outage: OutageReport | None) -> None:
    """Pause a job until it is resumed; in an outage, unless the user wants that, until it is time
    to try again."""
    step = saved_step(session, job)
    where = f" at step {step} of {job.total_steps}" if step is not None else ""
    if outage is None or job.pause_requested_at is not None:
        move_job(session, job, JobStatus.PAUSED, f"Paused{where}", phase=None, losses=0)
        return
    message = f"Paused{where}: {outage.message}; tried again in {outage.seconds:.0f} s"
    changes: dict[str, Any] = {
        "phase": None,
        "losses": 0,
        "not_before": now(session) + outage.seconds,
        "queue_reason": outage.message,
    }
    move_job(session, job, JobStatus.PAUSED, message, level="warn", **changes)


def _succeed(session: Session, job: Job, handler: Handler, result: dict[str, Any]) -> None:
    kept = handler.complete(session, job, result)
    step = job.total_steps or job.step
    move_job(session, job, JobStatus.SUCCEEDED, "Succeeded", result=kept, phase=None, step=step)


def _requeue(session: Session, claim: Claim, job: Job) -> None:
    """Requeue a job whose worker shuts down; it does not count as a loss."""
    if claim.stage is ClaimStage.VALIDATION:
        release_validation(session, job, "The worker is shutting down", losses=job.losses)
        return
    message = "The worker is shutting down; the job resumes from its last checkpoint"
    move_job(session, job, JobStatus.QUEUED, message, level="warn", phase=None)
    add_wake_up(session, job.queue)


def _is_retryable(child_exit: ChildExit) -> bool:
    """Whether the child, or a process that it depends on, died: another attempt may succeed."""
    if child_exit.result is None:
        return _exhausted(child_exit) is None
    error = child_exit.result.get("error")
    return isinstance(error, dict) and error.get("retryable") is True


def _exhausted(child_exit: ChildExit) -> JobError | None:
    """The resource that the child ran out of, according to its watchdog or log."""
    if child_exit.unsupervised:
        return None
    if child_exit.exhausted == "tree":
        message = (
            "the processes of the job held more memory than TEMPER_JOB_MEMORY_GIB allows, "
            "by default nine tenths of the machine's"
        )
        return JobError(code="out_of_memory", message=message)
    if child_exit.disk_full:
        return JobError(code="storage_full", message="the disk of the job's files is full")
    for line in reversed(child_exit.log_tail[-LAST_LINES:]):
        if line.startswith(OUT_OF_MEMORY):
            return JobError(code="out_of_memory", message=f"the process ran out of memory: {line}")
        if any(words in line for words in STORAGE_FULL):
            return JobError(code="storage_full", message=f"the disk is full: {line}")
    return None


def _bad_rows(reported: Any) -> list[RowProblem]:
    """The unusable rows that a child reported."""
    try:
        return _ROWS.validate_python(reported or [])
    except ValidationError:
        return []


def _cause(child_exit: ChildExit) -> JobError:
    """The cause of a failure: the child's own error, or one derived from its exit code."""
    if child_exit.result is not None:
        reported = child_exit.result.get("error")
        error = reported if isinstance(reported, dict) else {}
        param = error.get("param")
        return JobError(
            code=str(error.get("code") or "failed")[:64],
            message=str(error.get("message") or "the process gave no reason"),
            param=str(param) if param is not None else None,
            rows=_bad_rows(error.get("rows")),
        )
    if child_exit.unsupervised:
        message = "the watchdog of the process was killed, and the process with it"
        return JobError(code="watchdog_killed", message=message)
    if (exhausted := _exhausted(child_exit)) is not None:
        return exhausted
    if child_exit.returncode >= 0:
        message = f"the process ended with code {child_exit.returncode} and no result"
        return JobError(code="process_crashed", message=message)
    number = -child_exit.returncode
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = str(number)
    if child_exit.exhausted == "machine":
        message = "the kernel killed the process because the machine ran out of memory"
        return JobError(code="out_of_memory", message=message)
    return JobError(code="process_killed", message=f"the process was killed by {name}")
