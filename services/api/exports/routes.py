"""POST /v1/models/{id}/export, and /v1/exports."""

from typing import Annotated

from fastapi import APIRouter, Body
from sqlalchemy.orm import Session

from services.api.context import Gateway
from services.api.examples import EXPORT
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes, kind_router
from services.api.jobs.view import state_fields
from services.api.settings import ApiSettings
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PermissionDenied,
)
from services.contracts.jobs import JobKind
from services.contracts.models.jobs import CreateExport, Export, ExportModel, is_allowed
from services.core.artifacts import Artifacts
from services.core.web.errors import documented_errors
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job
from services.models.registry import locate_model


def export_request(model_id: str, body: ExportModel) -> CreateExport:
    """The request of the job for a model."""
    return CreateExport(
        model=model_id,
        destination=body.destination,
        gpus=0,
        priority=body.priority,
        metadata=body.metadata,
    )


def create_export(session: Session, request: CreateExport, settings: ApiSettings) -> Job:
    """Queue the job.

    Raises `PermissionDenied` for a destination that the operator has not allowed, `NotFound`, and
    `InvalidRequest` for a model without local files.
    """
    if not is_allowed(request.destination, settings.export_destinations):
        raise PermissionDenied(
            f"{request.destination} is not below one of the operator's TEMPER_EXPORT_DESTINATIONS",
            param="destination",
        )
    artifacts = Artifacts(settings.home)
    model = locate_model(session, request.model, settings.models_folder, artifacts)
    if model.adapter is None and model.weights.path is None:
        raise InvalidRequest(
            f"the files of {request.model!r} are on a hub, not here",
            param="id",
            code="nothing_to_export",
        )
    return create_job(session, NewJob.of(JobKind.EXPORT, request, request.gpus))


def export_view(job: Job) -> Export:
    """The wire view of an export job."""
    request = CreateExport.model_validate(job.request)
    return Export(
        model=request.model,
        destination=request.destination,
        **(job.result or {}),
        **state_fields(job),
    )


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
