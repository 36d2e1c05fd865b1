"""A job's metrics over its steps, downsampled to as many points as a plot can show."""

from typing import Annotated

from fastapi import APIRouter, Query

from services.api.context import Gateway
from services.api.jobs.artifacts import open_artifact
from services.contracts.errors import AuthenticationFailed, NotFound
from services.contracts.jobs import MAX_STEP, POINTS_PER_BUCKET, Curves
from services.core.process.reporter import METRICS
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.jobs.store import get_job

router = APIRouter(
    prefix="/v1/jobs/{job_id}/metrics",
    tags=["jobs"],
    responses=documented_errors(AuthenticationFailed),
)

Points = Annotated[
    int, Query(ge=POINTS_PER_BUCKET, le=10_000, description="Maximum points of each metric.")
]
FirstStep = Annotated[int, Query(ge=0, le=MAX_STEP, description="The first step to show.")]
LastStep = Annotated[
    int | None, Query(ge=0, le=MAX_STEP, description="The last step to show; null: the latest.")
]


@router.get(
    "", summary="Show a job's metrics over its steps", responses=documented_errors(NotFound)
)
def curves(
    gateway: Gateway,
    _principal: Principal,
    job_id: str,
    points: Points = 1000,
    from_step: FirstStep = 0,
    to_step: LastStep = None,
) -> Curves:
    """The metrics reported so far, with the extremes of every interval of steps. A narrower range
    of steps has a finer resolution."""
    with gateway.database.read() as session:
        get_job(session, job_id)
    try:
        path = open_artifact(gateway.artifacts.job(job_id), METRICS)
    except NotFound:  # nothing has been reported yet
        return Curves(metrics={})
    from services.api.jobs.curve_files import CACHE, read_range  # noqa: PLC0415 - with numpy, which an idle gateway does without

    if from_step == 0 and to_step is None:
        return CACHE.read(path, points)
    last = MAX_STEP if to_step is None else to_step
    return read_range(path, points, range(from_step, last + 1))
