"""/v1/rollouts."""

from fastapi.responses import FileResponse

from services.api.context import Gateway
from services.api.downloads import DOWNLOAD, download
from services.api.examples import ROLLOUT
from services.api.jobs.kind_routes import KindRoutes, add_create_route, kind_router
from services.api.rollouts.service import create_rollout, rollout_view
from services.contracts.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    PermissionDenied,
)
from services.contracts.jobs import JobKind
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.jobs.store import get_job

router = kind_router(JobKind.ROLLOUT)

PARQUET = "trajectories.parquet"


add_create_route(
    router,
    JobKind.ROLLOUT,
    create_rollout,
    rollout_view,
    summary="Create a rollout job",
    description="Queue rollouts of a model with tools: several per prompt, each with its "
    "reward.\n\n"
    "The model is a registered one, or one behind a vLLM server that the operator allows.",
    examples=ROLLOUT,
    errors=(InvalidRequest, PermissionDenied, Conflict),
)


@router.get(
    "/{job_id}/content",
    summary="Download the trajectories of a rollout job",
    response_class=FileResponse,
    responses=DOWNLOAD | documented_errors(NotFound),
)
def content(gateway: Gateway, _principal: Principal, job_id: str) -> FileResponse:
    """Download all trajectories as Parquet, once the job has succeeded."""
    with gateway.database.read() as session:
        get_job(session, job_id, JobKind.ROLLOUT)
    path = gateway.artifacts.job(job_id) / PARQUET
    if not path.exists():
        raise NotFound(f"{job_id} has not succeeded", param="job_id", code="content_not_ready")
    return download(path, f"{job_id}.parquet")


KindRoutes.of(JobKind.ROLLOUT, rollout_view).add_to(router)
