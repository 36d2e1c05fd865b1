"""/v1/fine_tuning/jobs."""

from typing import Annotated

from fastapi import APIRouter, Body

from services.api.context import Gateway
from services.api.examples import FINE_TUNING
from services.api.fine_tuning.forecast import forecast
from services.api.fine_tuning.service import (
    checkpoint_view,
    create_fine_tuning_job,
    fine_tuning_view,
)
from services.api.jobs.kind_routes import KindRoutes, add_create_route, kind_router
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PermissionDenied,
)
from services.contracts.jobs import JobKind
from services.contracts.training.fine_tuning import (
    Checkpoint,
    CreateFineTuningJob,
    FineTuningForecast,
)
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of
from services.jobs.store import get_job, list_checkpoints

router = kind_router(JobKind.FINE_TUNING)

forecast_router = APIRouter(
    prefix="/v1/fine_tuning/forecast",
    tags=["fine-tuning"],
    responses=documented_errors(AuthenticationFailed),
)

KIND = JobKind.FINE_TUNING


@forecast_router.post(
    "",
    summary="Forecast a fine-tuning job",
    responses=documented_errors(InvalidRequest),
)
def show_forecast(
    gateway: Gateway,
    _principal: Principal,
    body: Annotated[CreateFineTuningJob, Body(openapi_examples=FINE_TUNING)],
) -> FineTuningForecast:
    """Check the request of a fine-tune, and estimate its memory and time, without creating it."""
    with gateway.database.read() as session:
        return forecast(session, body, gateway.settings)


add_create_route(
    router,
    JobKind.FINE_TUNING,
    create_fine_tuning_job,
    fine_tuning_view,
    summary="Create a fine-tuning job",
    description="Queue a fine-tune; its files are validated before it waits for a device.",
    examples=FINE_TUNING,
    errors=(InvalidRequest, PermissionDenied, Conflict),
)
KindRoutes.of(JobKind.FINE_TUNING, fine_tuning_view).add_to(router)


@router.get(
    "/{job_id}/checkpoints",
    summary="List a fine-tuning job's checkpoints",
    responses=documented_errors(InvalidRequest, NotFound),
)
def checkpoints(
    gateway: Gateway,
    _principal: Principal,
    job_id: str,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> Page[Checkpoint]:
    """List checkpoints, newest first."""
    with gateway.database.read() as session:
        get_job(session, job_id, KIND)
        rows, has_more = list_checkpoints(session, job_id, after, limit)
        return page_of([checkpoint_view(row) for row in rows], has_more)
