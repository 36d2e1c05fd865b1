"""/v1/batches."""

from typing import Annotated

from fastapi import APIRouter, Body

from services.api.batches.service import batch_view, create_batch
from services.api.context import Gateway
from services.api.examples import BATCH
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes
from services.contracts.batches import Batch, CreateBatch
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    PermissionDenied,
)
from services.contracts.jobs import JobKind
from services.core.web.errors import documented_errors

router = APIRouter(
    prefix="/v1/batches", tags=["batches"], responses=documented_errors(AuthenticationFailed)
)


@router.post(
    "",
    summary="Create a batch",
    responses=documented_errors(InvalidRequest, PermissionDenied, Conflict),
)
def create(
    gateway: Gateway,
    creation: Creation,
    body: Annotated[CreateBatch, Body(openapi_examples=BATCH)],
) -> Batch:
    """Queue the requests of a file for a registered model, or for a server the operator allows."""
    return creation.create(
        "batches",
        body,
        Batch,
        lambda session: batch_view(create_batch(session, body, gateway.settings)),
    )


KindRoutes(JobKind.BATCH, "batch", Batch, batch_view).add_to(router)
