"""/v1/checks."""

from typing import Annotated

from fastapi import APIRouter, Body

from services.api.checks.service import check_view, create_check
from services.api.context import Gateway
from services.api.examples import CHECK
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes
from services.contracts.checks import Check, CreateCheck
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest
from services.contracts.jobs import JobKind
from services.core.web.errors import documented_errors

router = APIRouter(
    prefix="/v1/checks", tags=["checks"], responses=documented_errors(AuthenticationFailed)
)


@router.post(
    "", summary="Check a training file", responses=documented_errors(InvalidRequest, Conflict)
)
def create(
    gateway: Gateway,
    creation: Creation,
    body: Annotated[CreateCheck, Body(openapi_examples=CHECK)],
) -> Check:
    """Validate an uploaded file as a fine-tuning job would, without training on it.

    The check waits for no device. It fails on unusable rows and lists them.
    """
    return creation.create(
        "checks",
        body,
        Check,
        lambda session: check_view(create_check(session, body, gateway.settings)),
    )


KindRoutes(JobKind.CHECK, "check", Check, check_view).add_to(router)
