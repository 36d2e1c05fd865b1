"""/v1/models."""

from typing import Annotated

from fastapi import APIRouter, Body, Query

from services.api.context import Gateway
from services.api.examples import MODEL
from services.api.idempotency import Creation
from services.api.models.candidates import list_folders
from services.api.models.service import (
    list_models,
    model_view,
    register_model,
    remove_model,
    remove_weights,
)
from services.api.models.tokenizers import check_registered_tokenizer
from services.contracts.base import Deleted, Page
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound
from services.contracts.models.registered import Model, ModelFolder, RegisterModel
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, page_of
from services.models.registry import get_model_row

router = APIRouter(
    prefix="/v1/models", tags=["models"], responses=documented_errors(AuthenticationFailed)
)

folders_router = APIRouter(
    prefix="/v1/model_folders", tags=["models"], responses=documented_errors(AuthenticationFailed)
)

MAX_MODELS_LIMIT = 1000


@folders_router.get("", summary="List folders that may hold models")
def list_candidates(gateway: Gateway, _principal: Principal) -> Page[ModelFolder]:
    """List folders below the operator's model root, with their sizes and why one cannot be
    registered; at most 200, by name."""
    with gateway.database.read() as session:
        folders, has_more = list_folders(session, gateway.settings.models_folder)
    return page_of(folders, has_more)


@router.post(
    "",
    summary="Register a model",
    responses=documented_errors(InvalidRequest, NotFound, Conflict),
)
def register(
    gateway: Gateway,
    creation: Creation,
    body: Annotated[RegisterModel, Body(openapi_examples=MODEL)],
) -> Model:
    """Register a folder under the operator's model root, or a hub repository."""
    root = gateway.settings.models_folder
    check_registered_tokenizer(body, gateway.settings)
    return creation.create(
        "models", body, Model, lambda session: register_model(session, root, body)
    )


@router.get("", summary="List models", responses=documented_errors(InvalidRequest, NotFound))
def list_all(
    gateway: Gateway,
    _principal: Principal,
    text: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            description="Only models with this in their name, their hub repository or their "
            "folder, ignoring the case of ASCII letters.",
        ),
    ] = None,
    after: After = None,
    limit: Annotated[int, Query(ge=1, le=MAX_MODELS_LIMIT)] = MAX_MODELS_LIMIT,
) -> Page[Model]:
    """List models, newest first."""
    with gateway.database.read() as session:
        models, has_more = list_models(session, text, after, limit)
    return page_of(models, has_more)


# Model names contain slashes (hubs) and colons (fine-tunes).
@router.get("/{model_id:path}", summary="Show a model", responses=documented_errors(NotFound))
def get(gateway: Gateway, _principal: Principal, model_id: str) -> Model:
    """Show one model, with its lineage when it was trained here."""
    with gateway.database.read() as session:
        return model_view(get_model_row(session, model_id, param="id"))


@router.delete(
    "/{model_id:path}",
    summary="Delete a model",
    responses=documented_errors(NotFound, Conflict),
)
def delete(gateway: Gateway, _principal: Principal, model_id: str) -> Deleted:
    """Delete a model that is not in use, with its weights if they were trained here."""
    with gateway.database.write() as session:
        folder = remove_model(session, gateway.artifacts, model_id)
    if folder is not None:
        remove_weights(folder)
    return Deleted(id=model_id, object="model")
