"""POST /v1/models/{id}/download, and /v1/downloads."""

from typing import Annotated

from fastapi import APIRouter, Body

from services.api.context import Gateway
from services.api.examples import MODEL_DOWNLOAD
from services.api.hub_downloads.service import create_download, download_request, download_view
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes, kind_router
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound
from services.contracts.jobs import JobKind
from services.contracts.models.downloads import Download, DownloadModel
from services.core.web.errors import documented_errors

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
