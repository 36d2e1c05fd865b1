"""Merge requests: validation, the job, and its view."""

from sqlalchemy.orm import Session

from services.api.jobs.view import state_fields
from services.api.models.service import resolve_for_load
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobKind
from services.contracts.models.merges import CreateMerge, Merge, MergeModel
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job
from services.models.registry import gguf_file


def merge_request(model_id: str, body: MergeModel) -> CreateMerge:
    """The request of the job for a model."""
    return CreateMerge(
        model=model_id,
        suffix=body.suffix,
        gpus=0,
        priority=body.priority,
        metadata=body.metadata,
    )


def create_merge(session: Session, request: CreateMerge, settings: ApiSettings) -> Job:
    """Queue the job; raises `NotFound`, and `InvalidRequest` if there is nothing to merge."""
    if gguf_file(session, request.model, settings.models_folder) is None:
        _check_mergeable(session, request.model, settings)
    return create_job(session, NewJob.of(JobKind.MERGE, request, request.gpus))


def _check_mergeable(session: Session, name: str, settings: ApiSettings) -> None:
    model = resolve_for_load(session, name, settings)
    if model.adapter is None and model.value_head is None:
        raise InvalidRequest(
            f"{name!r} is neither an adapter, nor a checkpoint of a reward model, nor a GGUF file",
            param="id",
            code="nothing_to_merge",
        )


def merge_view(job: Job) -> Merge:
    """The wire view of a merge job."""
    request = CreateMerge.model_validate(job.request)
    return Merge(
        model=request.model,
        merged_model=(job.result or {}).get("merged_model"),
        **state_fields(job),
    )
