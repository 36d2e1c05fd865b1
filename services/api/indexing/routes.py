"""/v1/indexing/jobs."""

from typing import Annotated

from fastapi import APIRouter, Body

from services.api.examples import INDEXING
from services.api.idempotency import Creation
from services.api.indexing.service import create_indexing_job, indexing_view
from services.api.jobs.kind_routes import KindRoutes
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest
from services.contracts.indexes import CreateIndexingJob, IndexingJob
from services.contracts.jobs import JobKind
from services.core.web.errors import documented_errors

router = APIRouter(
    prefix="/v1/indexing/jobs",
    tags=["indexing"],
    responses=documented_errors(AuthenticationFailed),
)


@router.post("", summary="Build an index", responses=documented_errors(InvalidRequest, Conflict))
def create(
    creation: Creation,
    body: Annotated[CreateIndexingJob, Body(openapi_examples=INDEXING)],
) -> IndexingJob:
    """Queue an index build; a complete index replaces one of the same name."""
    return creation.create(
        "indexing",
        body,
        IndexingJob,
        lambda session: indexing_view(create_indexing_job(session, body)),
    )


KindRoutes(JobKind.INDEXING, "indexing job", IndexingJob, indexing_view).add_to(router)
