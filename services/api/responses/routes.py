"""/v1/responses: OpenAI's responses for every served model."""

import secrets
import time
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.responses import JSONResponse
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from services.api.context import Gateway, GatewayContext
from services.api.examples import RESPONSE
from services.api.responses import store
from services.api.responses.answering import Answering
from services.api.responses.following import follow
from services.api.responses.items import stored_input
from services.api.responses.preparation import Prepared, prepared
from services.api.responses.request import CreateResponse
from services.api.serving.event_stream import EventStream
from services.api.serving.routes import INFERENCE_RESPONSES
from services.api.serving.service import resolve_servable
from services.api.serving.servings import POLICY_PREFIX
from services.contracts.base import JsonObject
from services.contracts.errors import AuthenticationFailed, InvalidRequest, NotFound
from services.core.db.tables import ResponseRow
from services.core.web.auth import Principal
from services.core.web.disconnect import CLIENT_CLOSED_REQUEST, ClientGone, while_connected
from services.core.web.errors import documented_errors
from services.core.web.paging import MAX_NUMBER

router = APIRouter(
    prefix="/v1/responses", tags=["responses"], responses=documented_errors(AuthenticationFailed)
)
PATH = "/v1/responses"
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/json": {}, "text/event-stream": {}}},
    **documented_errors(InvalidRequest, NotFound),
}


@router.post("", summary="Create a response", responses=INFERENCE_RESPONSES)
async def create_response(
    request: Request,
    gateway: Gateway,
    principal: Principal,
    body: Annotated[CreateResponse, Body(openapi_examples=RESPONSE)],
) -> Response:
    """Answered by the model's engine, which is started if necessary; in the background on request.

    Tools of the server (`mcp`, `code_interpreter`, `file_search`) are run between the turns of the
    model. A stored response can be continued by `previous_response_id`.
    """
    gateway.inference.rates.admit(principal)
    limits = gateway.inference.rates.headers(principal)
    body.check()
    row, ready = await run_in_threadpool(_new, gateway, principal, body)
    if row.background:
        await run_in_threadpool(_store, gateway, row)
        gateway.responses.wake()
        if row.streamed:
            return EventStream(follow(gateway, principal, row.id, -1), limits)
        return JSONResponse(store.view(row), headers=limits)
    answering = Answering(gateway, ready, None if body.store is False else row)
    await answering.begin()
    if row.streamed:
        return EventStream(answering.events(), limits)
    try:
        answer = await while_connected(request.receive, answering.whole())
    except ClientGone:
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    return JSONResponse(answer, headers=limits)


@router.get("/{response_id}", summary="Retrieve a response", responses=RESPONSES)
def retrieve_response(
    gateway: Gateway,
    principal: Principal,
    response_id: str,
    stream: Annotated[
        bool, Query(description="Follow the events of a background response.")
    ] = False,
    starting_after: Annotated[
        int, Query(ge=-1, le=MAX_NUMBER, description="Only events after this sequence number.")
    ] = -1,
) -> Response:
    """A stored response of this key. With `stream`, the events of one that was created with
    `background` and `stream`: those that are stored, then those to come."""
    with gateway.database.read() as session:
        row = store.find(session, principal, response_id)
    if not stream:
        return JSONResponse(store.view(row))
    if not (row.background and row.streamed):
        message = "is true, but the response was not created with background and stream"
        raise InvalidRequest(message, param="stream")
    return EventStream(follow(gateway, principal, response_id, starting_after))


@router.get(
    "/{response_id}/input_items",
    summary="List the input of a response",
    responses=documented_errors(InvalidRequest, NotFound),
)
def list_input_items(
    gateway: Gateway,
    principal: Principal,
    response_id: str,
    after: Annotated[
        str | None, Query(max_length=300, description="Last id of the previous page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=100, description="Items per page.")] = 20,
    order: Annotated[
        Literal["asc", "desc"], Query(description="Order by time: asc or desc.")
    ] = "desc",
) -> Response:
    """The items that the request itself had; those of earlier responses are listed there."""
    with gateway.database.read() as session:
        items: list[JsonObject] = store.find(session, principal, response_id).input
    if order == "desc":
        items = items[::-1]
    ids = [item["id"] for item in items]
    if after is not None:
        if after not in ids:
            raise InvalidRequest(f"no item {after!r}", param="after")
        items = items[ids.index(after) + 1 :]
    page = items[:limit]
    return JSONResponse(
        {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": len(items) > limit,
        }
    )


@router.post(
    "/{response_id}/cancel",
    summary="Cancel a background response",
    responses=documented_errors(InvalidRequest, NotFound),
)
async def cancel_response(gateway: Gateway, principal: Principal, response_id: str) -> Response:
    """End a background response; one that has ended is returned as it is."""
    row = await run_in_threadpool(_cancel, gateway, principal, response_id)
    gateway.responses.stop(response_id)
    return JSONResponse(store.view(row))


@router.delete("/{response_id}", summary="Delete a response", responses=documented_errors(NotFound))
async def delete_response(gateway: Gateway, principal: Principal, response_id: str) -> Response:
    """Delete a response, which ends if it runs. Responses that continue it remain, but cannot be
    continued any more."""
    await run_in_threadpool(_delete, gateway, principal, response_id)
    gateway.responses.stop(response_id)
    return JSONResponse({"id": response_id, "object": "response", "deleted": True})


def _new(
    gateway: GatewayContext, principal: str, body: CreateResponse
) -> tuple[ResponseRow, Prepared]:
    """A response that is not stored yet; raises `InvalidRequest` and `NotFound`."""
    row = ResponseRow(
        id=f"resp_{secrets.token_hex(24)}",
        principal=principal,
        status="queued" if body.background else "in_progress",
        background=bool(body.background),
        streamed=bool(body.stream),
        previous_id=body.previous_response_id,
        request=body.stored(),
        input=stored_input(body.input),
        output=[],
        attempt=0,
        bytes=0,
        created_at=time.time(),
    )
    with gateway.database.read() as session:
        if not body.model.startswith(POLICY_PREFIX):
            resolve_servable(session, body.model, gateway.settings)
        before = _conversation(session, principal, body.previous_response_id)
    return row, prepared(row, before, gateway.settings)


def _conversation(session: Session, principal: str, identity: str | None) -> list[JsonObject]:
    return [] if identity is None else store.conversation(session, principal, identity)


def _store(gateway: GatewayContext, row: ResponseRow) -> None:
    with gateway.database.write() as session:
        store.create(session, row)


def _cancel(gateway: GatewayContext, principal: str, response_id: str) -> ResponseRow:
    with gateway.database.write() as session:
        row = store.find(session, principal, response_id)
        store.cancel(session, row)
    return row


def _delete(gateway: GatewayContext, principal: str, response_id: str) -> None:
    with gateway.database.write() as session:
        store.find(session, principal, response_id)
        store.remove(session, [response_id])
