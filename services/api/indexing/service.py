"""Checking a request for an index and turning it into a job."""

from sqlalchemy.orm import Session

from services.api.files.service import get_file_row
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.indexes import CreateIndexingJob, IndexMode
from services.contracts.jobs import JobKind
from services.contracts.models import ModelKind
from services.core.ids import new_id
from services.core.jobs.job import Job, NewJob
from services.core.jobs.queues import INDEXING
from services.core.jobs.store import create_job
from services.core.models.registry import get_model_row


def create_indexing_job(session: Session, body: CreateIndexingJob) -> Job:
    """Check what can be checked without reading the file, and queue the job.

    Raises `InvalidRequest` with the field at fault.
    """
    try:
        get_file_row(session, body.file)
    except NotFound as error:
        raise InvalidRequest(error.message, param="file", code=error.code) from None
    if body.encoder is not None:
        _check_encoder(session, body.encoder, body.mode)
    return create_job(
        session,
        NewJob(
            id=new_id("idxjob"),
            kind=JobKind.INDEXING,
            queue=INDEXING.work,
            validation_queue=INDEXING.validation,
            request=body.model_dump(mode="json"),
            # Counting words needs no device.
            gpus=0 if body.mode is IndexMode.BM25 else body.gpus,
            priority=body.priority,
            metadata=body.metadata,
        ),
    )


def _check_encoder(session: Session, name: str, mode: IndexMode) -> None:
    """The encoder is a model of the registry: what loads it never sees a client's path or URL."""
    if mode is IndexMode.BM25:
        raise InvalidRequest("an index of mode bm25 has no encoder", param="encoder")
    try:
        model = get_model_row(session, name, param="encoder")
    except NotFound as error:
        raise InvalidRequest(error.message, param="encoder", code=error.code) from None
    if model.kind == ModelKind.ADAPTER:
        raise InvalidRequest(f"{name!r} is an adapter, not a whole model", param="encoder")
