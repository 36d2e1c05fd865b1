"""The endpoint of a job's agents: a model's routes in three dialects, one key per session."""

import asyncio
import json
import math
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from services.contracts.base import JsonObject
from services.contracts.errors import (
    AuthenticationFailed,
    BadGateway,
    InvalidRequest,
    PayloadTooLarge,
    TemperError,
)
from services.core.web.disconnect import CLIENT_CLOSED_REQUEST, ClientGone, while_connected
from services.core.web.errors import error_answer
from services.core.web.serving import Address, bind, create_server
from services.dialects import DIALECTS
from services.dialects.exchange import Dialect, ModelAnswer, ModelRequest
from services.dialects.messages import MESSAGES
from services.inference.token_engine.base import EngineFailed
from services.parsing.foreign_json import parse_foreign
from services.rollouts.agents.session import AgentSession

LARGEST_BODY = 32 << 20
"""Bytes of one request: a conversation as long as contexts are."""


class AgentEndpoint:
    """The sessions that run, by their keys, and the application that answers them.

    ``base_url`` is where agents reach it; it is set while `serving`.
    """

    def __init__(self, model: str) -> None:
        self.base_url = ""
        self.model = model
        self._sessions: dict[str, AgentSession] = {}
        routes = [Route(each.path, self._answering(each), methods=["POST"]) for each in DIALECTS]
        self.app = Starlette(
            routes=[
                *routes,
                Route("/v1/models", self._models),
                Route("/v1/messages/count_tokens", self._count_tokens, methods=["POST"]),
                Route("/v1/reward", self._reward, methods=["POST"]),
            ],
            exception_handlers={TemperError: _failed, HTTPException: _refused},
        )

    @contextmanager
    def admitted(self, session: AgentSession) -> Iterator[str]:
        """The key of a session, which is answered within the block only."""
        key = f"sk-{secrets.token_urlsafe(24)}"
        self._sessions[key] = session
        try:
            yield key
        finally:
            session.end()
            del self._sessions[key]

    def _answering(self, dialect: Dialect) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        async def answer(request: Request) -> Response:
            session = self._session(request)
            asked = dialect.read(await _body(request))
            try:
                # What nobody reads must not become a turn of the agent's.
                answered = await while_connected(request.receive, session.answer(asked))
            except ClientGone:
                return Response(status_code=CLIENT_CLOSED_REQUEST)
            except EngineFailed as error:
                raise BadGateway(error.message, code=error.code) from error
            if asked.stream:
                return StreamingResponse(
                    _streamed(dialect, answered, asked), media_type="text/event-stream"
                )
            return JSONResponse(dialect.body(answered))

        return answer

    async def _models(self, _request: Request) -> Response:
        card = {"id": self.model, "object": "model", "created": 0, "owned_by": "temper"}
        return JSONResponse({"object": "list", "data": [card]})

    async def _count_tokens(self, request: Request) -> Response:
        """Answered, never recorded."""
        session = self._session(request)
        return JSONResponse({"input_tokens": session.count(MESSAGES.read(await _body(request)))})

    async def _reward(self, request: Request) -> Response:
        session = self._session(request)
        session.reward = reward_in(await _body(request))
        if session.reward is None:
            raise InvalidRequest("is missing", param="reward")
        return JSONResponse({"reward": session.reward})

    def _session(self, request: Request) -> AgentSession:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        key = token.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
        session = self._sessions.get(key)
        if session is None:
            raise AuthenticationFailed("the key is of no session that runs")
        return session


def reward_in(value: JsonObject) -> float | None:
    """The reward in what an agent says, None without one; raises InvalidRequest."""
    reward = value.get("reward")
    if reward is None:
        return None
    is_number = isinstance(reward, int | float) and not isinstance(reward, bool)
    if not is_number or not math.isfinite(reward):
        raise InvalidRequest("must be a finite number", param="reward")
    return float(reward)


@asynccontextmanager
async def serving(endpoint: AgentEndpoint, host: str) -> AsyncIterator[None]:
    """Serve on a free port of ``host`` for the duration of the block; raises TemperError."""
    server = create_server(endpoint.app, takes_signals=False)
    sockets = bind(Address(host, 0))
    for each in sockets:
        each.listen(socket.SOMAXCONN)
    task = asyncio.create_task(server.serve(sockets))
    endpoint.base_url = f"http://{_shown(host)}:{sockets[0].getsockname()[1]}"
    try:
        yield
    finally:
        server.should_exit = True
        await task


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


async def _body(request: Request) -> JsonObject:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > LARGEST_BODY:
            raise PayloadTooLarge(f"the body has more than {LARGEST_BODY >> 20} MiB")
    try:
        value = parse_foreign(bytes(content))
    except ValueError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body is not a JSON object")
    return value


async def _streamed(
    dialect: Dialect, answer: ModelAnswer, request: ModelRequest
) -> AsyncIterator[bytes]:
    for name, data in dialect.events(answer, request):
        head = f"event: {name}\n" if name else ""
        yield f"{head}data: {json.dumps(data)}\n\n".encode()
    if dialect.last_line is not None:
        yield f"data: {dialect.last_line}\n\n".encode()


async def _failed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, TemperError)  # noqa: S101 - as registered
    return error_answer(error)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - as registered
    message = f"{error.detail}: an agent's endpoint has {', '.join(d.path for d in DIALECTS)}"
    detail = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": detail}, error.status_code)
