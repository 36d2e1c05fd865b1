"""Requests for batches: validation, the job, and its view in OpenAI's shape."""

from sqlalchemy.orm import Session

from services.api.jobs.artifacts import batch_file_id
from services.api.models.service import check_endpoint
from services.api.settings import ApiSettings
from services.contracts.batches.batches import (
    WINDOW_SECONDS,
    Batch,
    BatchError,
    BatchErrors,
    BatchResult,
    BatchStatus,
    CreateBatch,
    RequestCounts,
)
from services.contracts.jobs import JobKind, JobStatus
from services.contracts.models.registered import RemoteModel
from services.jobs.job import REMOTE_SLOT, Job, NewJob
from services.jobs.store import create_job
from services.models.registry import require_file

_STATUSES = {
    JobStatus.VALIDATING_FILES: BatchStatus.VALIDATING,
    JobStatus.QUEUED: BatchStatus.IN_PROGRESS,
    JobStatus.RUNNING: BatchStatus.IN_PROGRESS,
    JobStatus.PAUSED: BatchStatus.IN_PROGRESS,
    JobStatus.SUCCEEDED: BatchStatus.COMPLETED,
    JobStatus.FAILED: BatchStatus.FAILED,
    JobStatus.CANCELLED: BatchStatus.CANCELLED,
}


def create_batch(session: Session, body: CreateBatch, settings: ApiSettings) -> Job:
    """Check everything that needs no file content, and queue the job.

    Raises `InvalidRequest` with the field at fault, and `PermissionDenied` for a
    server that the operator's settings do not allow.
    """
    require_file(session, body.input_file_id, "input_file_id")
    gpus = body.gpus
    if body.base_url is not None:
        remote = RemoteModel(base_url=body.base_url, model="any")
        check_endpoint(remote, settings.allowed_endpoints, param="base_url")
        gpus = REMOTE_SLOT
    return create_job(session, NewJob.of(JobKind.BATCH, body, gpus))


def batch_view(job: Job) -> Batch:
    """The wire view of a batch job."""
    request = CreateBatch.model_validate(job.request)
    result = BatchResult.model_validate(job.result) if job.result else None
    counts = result.counts if result else _counts_so_far(job)
    finished_at = int(job.finished_at) if job.finished_at is not None else None
    # Without a result it is unknown which file has lines: name both.
    has_output, has_errors = counts.completed > 0, counts.failed > 0
    if result is None:
        has_output = has_errors = job.attempt > 0 and job.step is not None
    status = _status(job, result)
    return Batch(
        id=job.id,
        endpoint=request.endpoint,
        model=result.model if result else None,
        errors=_errors(job),
        input_file_id=request.input_file_id,
        completion_window=request.completion_window,
        status=status,
        output_file_id=batch_file_id(job.id, "output") if finished_at and has_output else None,
        error_file_id=batch_file_id(job.id, "errors") if finished_at and has_errors else None,
        created_at=int(job.created_at),
        in_progress_at=int(job.started_at) if job.started_at is not None else None,
        expires_at=int(job.created_at) + WINDOW_SECONDS,
        finalizing_at=finished_at if result else None,
        completed_at=finished_at if status is BatchStatus.COMPLETED else None,
        failed_at=finished_at if status is BatchStatus.FAILED else None,
        expired_at=finished_at if status is BatchStatus.EXPIRED else None,
        cancelling_at=_cancelled_at(job),
        cancelled_at=finished_at if status is BatchStatus.CANCELLED else None,
        request_counts=counts,
        usage=result.usage if result else None,
        metadata=job.metadata,
    )


def _status(job: Job, result: BatchResult | None) -> BatchStatus:
    if result is not None and result.expired:
        return BatchStatus.EXPIRED
    if job.cancel_requested_at is not None and not job.status.is_final:
        return BatchStatus.CANCELLING
    return _STATUSES[job.status]


def _counts_so_far(job: Job) -> RequestCounts:
    if not job.attempt:  # the progress of a validation is not in requests
        return RequestCounts()
    return RequestCounts(total=job.total_steps or 0, completed=job.step or 0)


def _errors(job: Job) -> BatchErrors | None:
    if job.error is None:
        return None
    error = BatchError(code=job.error.code, message=job.error.message, param=job.error.param)
    of_lines = [
        error.model_copy(update={"message": problem.message, "line": problem.row})
        for problem in job.error.rows
    ]
    return BatchErrors(data=of_lines or [error])


def _cancelled_at(job: Job) -> int | None:
    return int(job.cancel_requested_at) if job.cancel_requested_at is not None else None
