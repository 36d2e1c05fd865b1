"""/v1/fine_tuning/alpha/graders."""

from typing import Annotated

from fastapi import APIRouter, Body, Request, Response

from services.api.context import Gateway
from services.api.examples import RUN_GRADER, VALIDATE_GRADER
from services.api.graders.service import run_grader, validate_grader
from services.contracts.errors import (
    AuthenticationFailed,
    GatewayTimeout,
    InvalidRequest,
    PermissionDenied,
    Unavailable,
)
from services.contracts.rewards.grading import (
    GraderRun,
    GraderValidation,
    RunGrader,
    ValidateGrader,
)
from services.core.web.auth import Principal
from services.core.web.disconnect import answer_to
from services.core.web.errors import documented_errors

router = APIRouter(
    prefix="/v1/fine_tuning/alpha/graders",
    tags=["graders"],
    responses=documented_errors(AuthenticationFailed, InvalidRequest, PermissionDenied),
)


@router.post("/validate", summary="Check a grader")
def validate(
    gateway: Gateway,
    _principal: Principal,
    body: Annotated[ValidateGrader, Body(openapi_examples=VALIDATE_GRADER)],
) -> GraderValidation:
    """Validate a grader or a reward without running it; no service is contacted."""
    return validate_grader(gateway.settings, body)


@router.post(
    "/run",
    summary="Run a grader",
    response_model=GraderRun,
    responses=documented_errors(Unavailable, GatewayTimeout),
)
async def run(
    request: Request,
    gateway: Gateway,
    _principal: Principal,
    body: Annotated[RunGrader, Body(openapi_examples=RUN_GRADER)],
) -> Response:
    """Score one text of a model with a grader or a reward, as training would."""
    return await answer_to(request, run_grader(gateway.settings, body))
