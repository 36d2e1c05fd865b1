"""POST /v1/models/{id}/merge, and /v1/merges."""

from typing import Annotated

from fastapi import APIRouter, Body

from services.api.context import Gateway
from services.api.examples import MERGE
from services.api.idempotency import Creation
from services.api.jobs.kind_routes import KindRoutes, kind_router
from services.api.merges.service import create_merge, merge_request, merge_view
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound
from services.contracts.jobs import JobKind
from services.contracts.models.merges import Merge, MergeModel
from services.core.web.errors import documented_errors

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
