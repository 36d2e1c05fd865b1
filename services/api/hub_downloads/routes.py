"""POST /v1/models/{id}/download, and /v1/downloads."""

from typing import Annotated

from fastapi import APIRouter, Body
from sqlalchemy.orm import Session

from services.api.context import Gateway
from services.api.examples import MODEL_DOWNLOAD
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes, kind_router
from services.api.jobs.view import state_fields
from services.api.settings import ApiSettings
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound
from services.contracts.jobs import JobKind
from services.contracts.models.jobs import CreateDownload, Download, DownloadModel
from services.core.artifacts import Artifacts
from services.core.web.errors import documented_errors
from services.jobs.job import REMOTE_SLOT, Job, NewJob
from services.jobs.store import create_job
from services.models.registry import locate_model


def download_request(model_id: str, body: DownloadModel) -> CreateDownload:
    """The request of the job for a model."""
    return CreateDownload(model=model_id, priority=body.priority, metadata=body.metadata)


def create_download(session: Session, request: CreateDownload, settings: ApiSettings) -> Job:
    """Queue the job; raises `NotFound`, and `InvalidRequest` for a model that is on no hub."""
    artifacts = Artifacts(settings.home)
    model = locate_model(session, request.model, settings.models_folder, artifacts)
    if model.weights.hub_id is None:
        raise InvalidRequest(
            f"the files of {request.model!r} are here, not on a hub",
            param="id",
            code="nothing_to_download",
        )
    return create_job(session, NewJob.of(JobKind.DOWNLOAD, request, REMOTE_SLOT))


def download_view(job: Job) -> Download:
    """The wire view of a download job."""
    request = CreateDownload.model_validate(job.request)
    return Download(model=request.model, **(job.result or {}), **state_fields(job))


router = kind_router(JobKind.DOWNLOAD)
KindRoutes.of(JobKind.DOWNLOAD, download_view).add_to(router)

models = APIRouter(
    prefix="/v1/models", tags=["models"], responses=documented_errors(AuthenticationFailed)
)


@models.post(
    "/{model_id:path}/download",
    summary="Download a hub model",
    responses=documented_errors(InvalidRequest, NotFound, Conflict),
)
def download(
    gateway: Gateway,
    creation: Creation,
    model_id: str,
    body: Annotated[DownloadModel, Body(openapi_examples=MODEL_DOWNLOAD)],
) -> Download:
    """Queue a job that downloads a hub model to the cache of a worker's host, where later jobs
    find it.

    The job's `download` counts its bytes. For an adapter its base is downloaded.
    """
    request = download_request(model_id, body)
    return creation.create(
        "downloads",
        request,
        Download,
        lambda session: download_view(create_download(session, request, gateway.settings)),
    )
