"""Download requests: validation, the job, and its view."""

from sqlalchemy.orm import Session

from services.api.jobs.view import state_fields
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobKind
from services.contracts.models.downloads import CreateDownload, Download, DownloadModel
from services.core.artifacts import Artifacts
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
