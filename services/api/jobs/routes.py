"""/v1/jobs: jobs of every kind, and /v1/workers."""

from typing import Annotated

from fastapi import APIRouter, Query

from services.api.context import Gateway
from services.api.jobs.events import EVENTS_ANSWERS, Events, EventsAnswer
from services.api.jobs.metadata_filter import MetadataFilter
from services.api.jobs.removal import remove_folder, remove_job
from services.api.jobs.view import job_view
from services.api.notes.service import count_job_notes
from services.contracts.base import DEFAULT_LIMIT, Deleted, Page
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound
from services.contracts.jobs import Event, Job, JobKind, JobStatus, SubmittedRequest, Worker
from services.core.jobs.pause import request_pause, resume_job
from services.core.jobs.store import JobFilter, get_job, list_jobs, request_cancel, retry_job
from services.core.jobs.workers import live_workers
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of

CREATED_AT = {
    JobKind.FINE_TUNING: "/v1/fine_tuning/jobs",
    JobKind.EVALUATION: "/v1/evaluations",
    JobKind.ROLLOUT: "/v1/rollouts",
    JobKind.INDEXING: "/v1/indexing/jobs",
    JobKind.BATCH: "/v1/batches",
    JobKind.CHECK: "/v1/checks",
    JobKind.CAMPAIGN: "/v1/campaigns",
}
"""Where jobs are posted, by their kinds."""

NamedFile = Annotated[
    str | None,
    Query(pattern=r"^[A-Za-z0-9_-]{1,64}$", description="Only jobs whose request names this file."),
]

SearchedText = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        description="Only jobs in which it occurs, whatever the case of ASCII letters: in the id, "
        "the kind, the names of models and index, the benchmarks, the suffix, the metadata, or why "
        "the job waits or failed.",
    ),
]

router = APIRouter(prefix="/v1", tags=["jobs"], responses=documented_errors(AuthenticationFailed))


@router.get(
    "/jobs",
    summary="List jobs of every kind",
    responses=documented_errors(InvalidRequest, NotFound),
)
def list_all(
    gateway: Gateway,
    _principal: Principal,
    metadata: MetadataFilter,
    kind: JobKind | None = None,
    status: JobStatus | None = None,
    file: NamedFile = None,
    text: SearchedText = None,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[Job]:
    """List jobs of every kind, newest first."""
    where = JobFilter(kind, status, metadata, file, text)
    with gateway.database.read() as session:
        jobs, has_more = list_jobs(session, where, after, limit)
        notes = count_job_notes(session, [job.id for job in jobs])
    return page_of([job_view(job, notes.get(job.id, 0)) for job in jobs], has_more)


@router.get("/jobs/{job_id}", summary="Show a job", responses=documented_errors(NotFound))
def get(gateway: Gateway, _principal: Principal, job_id: str) -> Job:
    """Show one job."""
    with gateway.database.read() as session:
        return job_view(get_job(session, job_id), count_job_notes(session, [job_id]).get(job_id, 0))


@router.get(
    "/jobs/{job_id}/request",
    summary="Show the request that made a job",
    responses=documented_errors(NotFound),
)
def submitted(gateway: Gateway, _principal: Principal, job_id: str) -> SubmittedRequest:
    """Show the request that made a job, to make another with changes."""
    with gateway.database.read() as session:
        job = get_job(session, job_id)
    return SubmittedRequest(path=CREATED_AT.get(JobKind(job.kind)), body=job.request)


@router.post(
    "/jobs/{job_id}/cancel",
    summary="Cancel a job",
    responses=documented_errors(NotFound, Conflict),
)
def cancel(gateway: Gateway, _principal: Principal, job_id: str) -> Job:
    """Cancel a waiting job at once; ask the worker of a running one to end it."""
    with gateway.database.write() as session:
        return job_view(request_cancel(session, job_id))


@router.post(
    "/jobs/{job_id}/pause",
    summary="Pause a job",
    responses=documented_errors(NotFound, Conflict),
)
def pause(gateway: Gateway, _principal: Principal, job_id: str) -> Job:
    """Save a checkpoint and free the devices; a queued job is held at once."""
    with gateway.database.write() as session:
        return job_view(request_pause(session, job_id))


@router.post(
    "/jobs/{job_id}/resume",
    summary="Resume a paused job",
    responses=documented_errors(NotFound, Conflict),
)
def resume(gateway: Gateway, _principal: Principal, job_id: str) -> Job:
    """Requeue a paused job; it resumes from the checkpoint of the pause."""
    with gateway.database.write() as session:
        job = resume_job(session, job_id)
    gateway.dispatcher.nudge()
    return job_view(job)


@router.post(
    "/jobs/{job_id}/retry",
    summary="Retry a failed job",
    responses=documented_errors(NotFound, Conflict),
)
def retry(gateway: Gateway, _principal: Principal, job_id: str) -> Job:
    """Requeue a failed job; it resumes from its last checkpoint."""
    with gateway.database.write() as session:
        job = retry_job(session, job_id)
    gateway.dispatcher.nudge()
    return job_view(job)


@router.delete(
    "/jobs/{job_id}",
    summary="Delete a finished job",
    responses=documented_errors(NotFound, Conflict),
)
def delete(gateway: Gateway, _principal: Principal, job_id: str) -> Deleted:
    """Delete a finished job with its folder, events, checkpoints and models."""
    with gateway.database.write() as session:
        folder = remove_job(session, gateway.artifacts, job_id)
    remove_folder(folder)
    return Deleted(id=job_id, object="job")


@router.get(
    "/jobs/{job_id}/events",
    summary="List or follow a job's events",
    response_model=Page[Event],
    responses=EVENTS_ANSWERS,
)
def events(gateway: Gateway, _principal: Principal, job_id: str, query: Events) -> EventsAnswer:
    """List events, newest first, or stream them, oldest first."""
    return query.answer(gateway, job_id)


@router.get("/workers", summary="List workers")
def workers(gateway: Gateway, _principal: Principal) -> Page[Worker]:
    """List the workers heard of lately."""
    with gateway.database.read() as session:
        rows = live_workers(session)
    return page_of(
        [
            Worker(
                id=row.id,
                host=row.host,
                queues=row.queues,
                gpus=row.gpus,
                cpu_slots=row.cpu_slots,
                started_at=int(row.started_at),
                heartbeat_at=int(row.heartbeat_at),
            )
            for row in rows
        ],
        has_more=False,
    )
