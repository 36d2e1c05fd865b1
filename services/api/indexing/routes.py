"""/v1/indexing/jobs."""

from sqlalchemy.orm import Session

from services.api.examples import INDEXING
from services.api.jobs.kind_routes import KindRoutes, add_create_route, kind_router
from services.api.jobs.view import state_fields
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobKind
from services.contracts.models.registered import ModelKind
from services.contracts.retrieval.indexes import (
    CreateIndexingJob,
    IndexBuildMetrics,
    IndexingJob,
    IndexMode,
)
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job
from services.models.registry import require_file, require_model


def create_indexing_job(session: Session, body: CreateIndexingJob, _settings: ApiSettings) -> Job:
    """Check everything that needs no file content, and queue the job.

    Raises `InvalidRequest` with the field at fault.
    """
    require_file(session, body.file)
    if body.encoder is not None:
        _check_encoder(session, body.encoder)
    # BM25 needs no device.
    gpus = 0 if body.mode is IndexMode.BM25 else body.gpus
    return create_job(session, NewJob.of(JobKind.INDEXING, body, gpus))


def _check_encoder(session: Session, name: str) -> None:
    """Only registered models are loaded as encoders, never a client's path or URL."""
    if require_model(session, name, "encoder").kind == ModelKind.ADAPTER:
        raise InvalidRequest(f"{name!r} is an adapter, not a whole model", param="encoder")


def indexing_view(job: Job) -> IndexingJob:
    """The wire view of an indexing job."""
    request = CreateIndexingJob.model_validate(job.request)
    result = job.result or {}
    metrics = result.get("metrics")
    return IndexingJob(
        index=request.index,
        file=request.file,
        mode=request.mode,
        language=request.language,
        encoder=request.encoder,
        dense=request.dense,
        version=result.get("version"),
        metrics=IndexBuildMetrics.model_validate(metrics) if metrics else None,
        **state_fields(job),
    )


router = kind_router(JobKind.INDEXING)

add_create_route(
    router,
    JobKind.INDEXING,
    create_indexing_job,
    indexing_view,
    summary="Build an index",
    description="Queue an index build; a complete index replaces one of the same name.",
    examples=INDEXING,
)
KindRoutes.of(JobKind.INDEXING, indexing_view).add_to(router)
