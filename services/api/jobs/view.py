"""Wire views of jobs."""

from typing import TypedDict

from services.contracts.jobs import DownloadProgress, JobError, JobStatus, Progress
from services.contracts.jobs import Job as JobView
from services.jobs.job import Job, shown_status
from services.jobs.names import name_of


class StateFields(TypedDict):
    """The fields that the views of all kinds share."""

    id: str
    name: str
    created_at: int
    started_at: int | None
    finished_at: int | None
    status: JobStatus
    phase: str | None
    progress: Progress | None
    download: DownloadProgress | None
    attempt: int
    queue_reason: str | None
    cancel_requested_at: int | None
    pause_requested_at: int | None
    deadline_at: int | None
    error: JobError | None
    metadata: dict[str, str] | None


def state_fields(job: Job) -> StateFields:
    """The shared fields of a job."""
    return StateFields(
        id=job.id,
        name=name_of(job),
        created_at=int(job.created_at),
        started_at=_seconds(job.started_at),
        finished_at=_seconds(job.finished_at),
        status=shown_status(job),
        phase=job.phase,
        progress=_progress(job),
        download=DownloadProgress.model_validate(job.download) if job.download else None,
        attempt=job.attempt,
        queue_reason=job.queue_reason,
        cancel_requested_at=_seconds(job.cancel_requested_at),
        pause_requested_at=_seconds(job.pause_requested_at),
        deadline_at=_seconds(job.deadline_at),
        error=job.error,
        metadata=job.metadata,
    )


def job_view(job: Job, notes: int = 0, seconds: float | None = None) -> JobView:
    """A job as /v1/jobs shows it; ``seconds`` is the total of its attempts."""
    return JobView(
        kind=job.kind,
        priority=job.priority,
        run_seconds=None if seconds is None else round(seconds, 1),
        notes=notes,
        **state_fields(job),
    )


def _seconds(time: float | None) -> int | None:
    return int(time) if time is not None else None


def _progress(job: Job) -> Progress | None:
    if job.step is None or not job.total_steps:
        return None
    return Progress(
        step=job.step,
        total_steps=job.total_steps,
        percent=round(100 * job.step / job.total_steps, 2),
        eta_seconds=job.eta_seconds,
    )
