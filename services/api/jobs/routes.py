"""/v1/jobs, for jobs of every kind, and /v1/workers."""

from typing import Annotated

from fastapi import APIRouter, Query

from services.api.context import Gateway
from services.api.jobs.kind_routes import KindRoutes
from services.api.jobs.metadata_filter import MetadataFilter
from services.api.jobs.overview import job_views
from services.api.jobs.view import job_view
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import AuthenticationFailed, InvalidRequest, NotFound
from services.contracts.jobs import Job, JobKind, JobStatus, SubmittedRequest, Worker
from services.contracts.kinds import kind_of
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of
from services.jobs.store import JobFilter, get_job, list_jobs
from services.jobs.workers import live_workers

NamedFile = Annotated[
    str | None,
    Query(
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Only jobs whose request names this file.",
    ),
]

NamedModel = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=300,
        description="Only jobs that work with this model, or made it; its whole id.",
    ),
]

SearchedText = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=200,
        description="Only jobs that contain this text, ignoring the case of ASCII letters, in the "
        "id, the name, the kind, the names of models and index, the benchmarks, the suffix, the "
        "metadata, the queue reason or the error.",
    ),
]

router = APIRouter(
    prefix="/v1/jobs", tags=["jobs"], responses=documented_errors(AuthenticationFailed)
)
workers_router = APIRouter(
    prefix="/v1/workers", tags=["jobs"], responses=documented_errors(AuthenticationFailed)
)


@router.get(
    "",
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
    model: NamedModel = None,
    text: SearchedText = None,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[Job]:
    """List jobs of every kind, newest first."""
    where = JobFilter(kind, status, metadata, file, text, model)
    with gateway.database.read() as session:
        jobs, has_more = list_jobs(session, where, after, limit)
        views = job_views(session, jobs)
    return page_of(views, has_more)


@router.get("/{job_id}", summary="Show a job", responses=documented_errors(NotFound))
def get(gateway: Gateway, _principal: Principal, job_id: str) -> Job:
    """Show one job."""
    with gateway.database.read() as session:
        (view,) = job_views(session, [get_job(session, job_id)])
    return view


@router.get(
    "/{job_id}/request",
    summary="Show the request that created a job",
    responses=documented_errors(NotFound),
)
def submitted(gateway: Gateway, _principal: Principal, job_id: str) -> SubmittedRequest:
    """Show the request that created a job, as a template for another."""
    with gateway.database.read() as session:
        job = get_job(session, job_id)
    kind = kind_of(job.kind)
    return SubmittedRequest(path=kind.path if kind.is_posted else None, body=job.request)


KindRoutes(None, "job", Job, job_view).add_actions_to(router)


@workers_router.get("", summary="List workers")
def workers(gateway: Gateway, _principal: Principal) -> Page[Worker]:
    """List the workers with a recent heartbeat."""
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
