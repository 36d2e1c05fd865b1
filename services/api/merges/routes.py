"""POST /v1/models/{id}/merge, and /v1/merges."""

from typing import Annotated

from fastapi import APIRouter, Body
from sqlalchemy.orm import Session

from services.api.context import Gateway
from services.api.examples import MERGE
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes, kind_router
from services.api.jobs.view import state_fields
from services.api.models.service import resolve_for_load
from services.api.settings import ApiSettings
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound
from services.contracts.jobs import JobKind
from services.contracts.models.jobs import CreateMerge, Merge, MergeModel
from services.core.web.errors import documented_errors
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


router = kind_router(JobKind.MERGE)
KindRoutes.of(JobKind.MERGE, merge_view).add_to(router)

models = APIRouter(
    prefix="/v1/models", tags=["models"], responses=documented_errors(AuthenticationFailed)
)


@models.post(
    "/{model_id:path}/merge",
    summary="Merge an adapter into its base",
    responses=documented_errors(InvalidRequest, NotFound, Conflict),
)
def merge(
    gateway: Gateway,
    creation: Creation,
    model_id: str,
    body: Annotated[MergeModel, Body(openapi_examples=MERGE)],
) -> Merge:
    """Queue a job that registers an adapter merged into its base as a model of its own.

    A checkpoint of a reward model becomes a sequence classifier, which rewards can name, and a GGUF
    file a model in safetensors.
    """
    request = merge_request(model_id, body)
    return creation.create(
        "merges",
        request,
        Merge,
        lambda session: merge_view(create_merge(session, request, gateway.settings)),
    )
