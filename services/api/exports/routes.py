"""POST /v1/models/{id}/export, and /v1/exports."""

from typing import Annotated

from fastapi import APIRouter, Body

from services.api.context import Gateway
from services.api.examples import EXPORT
from services.api.exports.service import create_export, export_request, export_view
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes, kind_router
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PermissionDenied,
)
from services.contracts.jobs import JobKind
from services.contracts.models.exports import Export, ExportModel
from services.core.web.errors import documented_errors

router = kind_router(JobKind.EXPORT)
KindRoutes.of(JobKind.EXPORT, export_view).add_to(router)

models = APIRouter(
    prefix="/v1/models", tags=["models"], responses=documented_errors(AuthenticationFailed)
)


@models.post(
    "/{model_id:path}/export",
    summary="Export a model",
    responses=documented_errors(InvalidRequest, PermissionDenied, NotFound, Conflict),
)
def export(
    gateway: Gateway,
    creation: Creation,
    model_id: str,
    body: Annotated[ExportModel, Body(openapi_examples=EXPORT)],
) -> Export:
    """Queue a job that copies a model's files to a folder, a store or a hub.

    The destination must lie below one that the operator allows. The files of an adapter are
    copied without its base.
    """
    request = export_request(model_id, body)
    return creation.create(
        "exports",
        request,
        Export,
        lambda session: export_view(create_export(session, request, gateway.settings)),
    )
