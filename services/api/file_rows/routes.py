"""/v1/files/{file_id}/rows and /v1/files/{file_id}/examples."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Body, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from services.api.context import Gateway, GatewayContext
from services.api.examples import EXAMPLES
from services.api.file_rows.spec import ReadExamples, ReadRows
from services.api.fine_tuning.service import check_hyperparameters
from services.api.jobs.artifacts import find_result_file
from services.api.models.service import resolve_for_load
from services.contracts.data.file_rows import (
    MAX_ROWS_LIMIT,
    ExampleRows,
    FileRows,
    RowId,
    ShowExamples,
)
from services.contracts.errors import (
    AuthenticationFailed,
    GatewayTimeout,
    InvalidRequest,
    NotFound,
    Unavailable,
)
from services.contracts.training.fine_tuning import Method
from services.contracts.training.offline import OfflineHyperparameters
from services.core.web.auth import Principal
from services.core.web.disconnect import answer_to
from services.core.web.errors import documented_errors
from services.models.registry import get_file_row

router = APIRouter(
    prefix="/v1/files/{file_id}",
    tags=["files"],
    responses=documented_errors(
        AuthenticationFailed, InvalidRequest, NotFound, Unavailable, GatewayTimeout
    ),
)

CHANGES_TOKENIZER = (*("add_special_tokens", "add_tokens", "init_special_tokens"),)
"""Arguments of LLaMA-Factory that make the tokens differ from those of tokenizer.json."""

RowAfter = Annotated[
    RowId | None,
    Query(description="Id of the last row of the previous page, or the number of a row."),
]
RowLimit = Annotated[int, Query(ge=1, le=MAX_ROWS_LIMIT, description="Rows per page.")]


@router.get("/rows", summary="Show the rows of a file", response_model=FileRows)
async def rows(
    request: Request,
    gateway: Gateway,
    _principal: Principal,
    file_id: str,
    after: RowAfter = None,
    limit: RowLimit = 20,
) -> Response:
    """Read rows in order. Unreadable rows have a problem instead; pages of large rows are shorter
    than ``limit``."""
    path = await run_in_threadpool(_path, gateway, file_id)
    page = ReadRows(path=path, after=after, limit=limit)
    return await answer_to(request, gateway.rows.page(page))


@router.post("/examples", summary="Show rows as training reads them", response_model=ExampleRows)
async def examples(
    request: Request,
    gateway: Gateway,
    _principal: Principal,
    file_id: str,
    body: Annotated[ShowExamples, Body(openapi_examples=EXAMPLES)],
) -> Response:
    """Render rows with the model's chat template, and mark the tokens with a loss."""
    page = await run_in_threadpool(_example_request, gateway, file_id, body)
    return await answer_to(request, gateway.rows.page(page))


def _example_request(gateway: GatewayContext, file_id: str, body: ShowExamples) -> ReadExamples:
    method = body.method or Method()
    # Arguments about evaluations do not change the rows.
    _check_showable(method, check_hyperparameters(method, has_validation=None))
    with gateway.database.read() as session:
        found = resolve_for_load(session, body.model, gateway.settings)
    model = found.weights
    return ReadExamples(
        path=_path(gateway, file_id),
        after=body.after,
        limit=body.limit,
        folder=found.tokenizer_folder,
        hub_id=model.hub_id,
        revision=model.revision,
        method=method,
    )


def _check_showable(method: Method, settings: OfflineHyperparameters) -> None:
    """Raise `InvalidRequest` for settings whose tokens only the training libraries compute."""
    prefix = f"method.{method.type.value}.hyperparameters"
    if settings.template is not None:
        message = f"{settings.template} is LLaMA-Factory's: only a model's own template is shown"
        raise InvalidRequest(message, param=f"{prefix}.template")
    given = settings.llamafactory
    changed = [name for name in CHANGES_TOKENIZER if given.get(name)]
    if given.get("use_fast_tokenizer") is False:
        changed.append("use_fast_tokenizer")
    if changed:
        message = f"{changed[0]} changes the tokens: rows are shown only without it"
        raise InvalidRequest(message, param=f"{prefix}.llamafactory.{changed[0]}")


def _path(gateway: GatewayContext, file_id: str) -> Path:
    if (found := find_result_file(gateway, file_id)) is not None:
        return found.path
    with gateway.database.read() as session:
        return gateway.artifacts.file(get_file_row(session, file_id).id)
