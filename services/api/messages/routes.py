"""POST /v1/messages and /v1/messages/count_tokens.

vLLM has these routes, too. They are not used: its requests have no field for the stop tokens of a
model's training, and an engine that shuts down ends a message there as if it were complete.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from services.api.context import Gateway
from services.api.examples import MESSAGE
from services.api.messages.errors import error_event, error_response
from services.api.messages.request import chat_body, conversation_of, rendered
from services.api.serving.event_stream import EventStream
from services.api.serving.json_request import json_request
from services.api.serving.request_body import InferenceBody
from services.api.serving.routes import INFERENCE_RESPONSES
from services.api.serving.turns import count_tokens, turn
from services.contracts.base import JsonObject
from services.contracts.errors import TemperError
from services.core.web.auth import DirectRoute, Principal
from services.core.web.disconnect import CLIENT_CLOSED_REQUEST, ClientGone, while_connected
from services.core.web.json_body import documented_body
from services.dialects.deltas import Delta
from services.dialects.exchange import Event
from services.dialects.messages_writer import MessageWriter

PATHS = ("/v1/messages", "/v1/messages/count_tokens")


class MessagesRoute(DirectRoute):
    """A route whose errors are written as Anthropic's."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """A handler that raises no `TemperError`."""
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await answer(request)
            except TemperError as error:
                return error_response(error)
            except ClientGone:
                return Response(status_code=CLIENT_CLOSED_REQUEST)

        return handle


router = APIRouter(
    prefix="/v1/messages",
    tags=["inference"],
    responses=INFERENCE_RESPONSES,
    route_class=MessagesRoute,
)


@router.post(
    "",
    summary="Continue a conversation (Anthropic)",
    openapi_extra=documented_body(InferenceBody, MESSAGE),
)
async def create_message(request: Request, gateway: Gateway, principal: Principal) -> Response:
    """Anthropic's messages for every served model, streamed or whole. The caller runs the tools."""
    gateway.inference.rates.admit(principal)
    body = await json_request(request.receive)
    chat = chat_body(body)
    deltas = turn(gateway.inference, chat, principal)
    writer = MessageWriter(uuid4().hex, chat["model"])
    limits = gateway.inference.rates.headers(principal)
    if chat.get("stream"):
        # Errors before the first delta have a status of their own.
        first = await while_connected(request.receive, anext(deltas, Delta()))
        return EventStream(_events(writer, first, deltas), limits)
    message = await while_connected(request.receive, _whole(writer, deltas))
    return JSONResponse(message, headers=limits)


@router.post(
    "/count_tokens",
    summary="Count the tokens of a conversation (Anthropic)",
    openapi_extra=documented_body(InferenceBody, MESSAGE),
)
async def count(request: Request, gateway: Gateway, principal: Principal) -> Response:
    """The tokens of a prompt as the model's chat template renders it, tools included."""
    gateway.inference.rates.admit(principal)
    body = await json_request(request.receive)
    asked = rendered(conversation_of(body), body)
    counted = await while_connected(request.receive, count_tokens(gateway.inference, asked))
    return JSONResponse({"input_tokens": counted})


async def _whole(writer: MessageWriter, deltas: AsyncGenerator[Delta, None]) -> JsonObject:
    async with aclosing(deltas):
        async for delta in deltas:
            for _ in writer.feed(delta):
                pass
    for _ in writer.end():
        pass
    return writer.body()


async def _events(
    writer: MessageWriter, first: Delta, deltas: AsyncGenerator[Delta, None]
) -> AsyncGenerator[Event, None]:
    """The events of a stream; an engine that fails ends it with an error."""
    async with aclosing(deltas):
        try:
            for event in writer.feed(first):
                yield event
            async for delta in deltas:
                for event in writer.feed(delta):
                    yield event
        except TemperError as error:
            yield "error", error_event(error)
            return
    for event in writer.end():
        yield event
