"""/v1/datasets."""

from typing import Annotated

from fastapi import APIRouter, Body, Query, Request, Response

from services.api.context import Gateway
from services.api.datasets.service import (
    check_file,
    dataset_view,
    list_datasets,
    register_dataset,
    remove_dataset,
)
from services.api.datasets.tokens import dataset_with_tokens
from services.api.examples import DATASET
from services.api.idempotency import Creation
from services.contracts.base import Deleted, Page
from services.contracts.data.datasets import Dataset, RegisterDataset
from services.contracts.errors import AuthenticationFailed, Conflict, InvalidRequest, NotFound
from services.core.web.auth import Principal
from services.core.web.disconnect import answer_to
from services.core.web.errors import documented_errors
from services.datasets.record import UnreadableFile
from services.datasets.statistics import describe_rows

router = APIRouter(
    prefix="/v1/datasets", tags=["datasets"], responses=documented_errors(AuthenticationFailed)
)

ModelOfTokens = Annotated[
    str | None,
    Query(
        min_length=1,
        max_length=300,
        description="Model whose tokenizer counts tokens. If it cannot, counts are estimates, and "
        "`not_counted` has the reason.",
    ),
]


@router.post(
    "", summary="Register a data set", responses=documented_errors(InvalidRequest, Conflict)
)
def register_named(
    gateway: Gateway,
    creation: Creation,
    body: Annotated[RegisterDataset, Body(openapi_examples=DATASET)],
) -> Dataset:
    """Register an uploaded JSON Lines file for campaigns; the whole file is read."""
    with gateway.database.read() as session:
        check_file(session, body)
    try:
        statistics = describe_rows(gateway.artifacts.file(body.file))
    except UnreadableFile as error:
        raise InvalidRequest(error.message, param="file") from None
    return creation.create(
        "datasets", body, Dataset, lambda session: register_dataset(session, body, statistics)
    )


@router.get("", summary="List data sets")
def list_registered(gateway: Gateway, _principal: Principal) -> Page[Dataset]:
    """List all data sets by name."""
    with gateway.database.read() as session:
        return Page(data=[dataset_view(session, row) for row in list_datasets(session)])


@router.get(
    "/{name}",
    summary="Show a data set",
    response_model=Dataset,
    responses=documented_errors(NotFound, InvalidRequest),
)
async def show_registered(
    request: Request,
    gateway: Gateway,
    _principal: Principal,
    name: str,
    model: ModelOfTokens = None,
) -> Response:
    """Show one data set with its statistics and first rows."""
    return await answer_to(request, dataset_with_tokens(gateway, name, model))


@router.delete("/{name}", summary="Delete a data set", responses=documented_errors(NotFound))
def forget(gateway: Gateway, _principal: Principal, name: str) -> Deleted:
    """Unregister a data set; its file is kept."""
    with gateway.database.write() as session:
        remove_dataset(session, name)
    return Deleted(id=name, object="dataset")
