"""A streaming reverse proxy to the tool services: connections, headers, and error responses."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import aiohttp
from fastapi.openapi.models import Example
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from services.contracts.errors import BadGateway, GatewayTimeout, TemperError, Unavailable
from services.core.web.disconnect import CLIENT_CLOSED_REQUEST, ClientGone, while_connected
from services.core.web.relay import (
    relay_body,
    request_headers,
    response_headers,
    to_asgi,
    upstream_session,
)


@dataclass(frozen=True)
class ToolRoute:
    """A POST route of a tool service, proxied under the same path.

    ``request``, ``answer`` and ``examples`` describe it in the OpenAPI document; only the
    service validates requests.
    """

    path: str
    summary: str
    request: type[BaseModel]
    answer: type[BaseModel]
    examples: Mapping[str, Example]


@dataclass(frozen=True)
class ToolService:
    """A service behind the gateway; `tool_services` lists them.

    ``url`` is its origin and ``api_key`` the key that the gateway sends. ``start`` tells an
    operator how to start it, ``trouble`` its state in the local stack if it does not run there.
    ``body_bytes`` and ``seconds`` limit a request, ``calls`` the number of concurrent ones.
    """

    name: str
    url: str
    api_key: str | None = field(repr=False)
    start: str
    trouble: Callable[[], str | None]
    routes: tuple[ToolRoute, ...]
    body_bytes: int
    seconds: float
    calls: int


logger = logging.getLogger(__name__)


class ProxyResponse(Response):
    """The response of a tool service, whose head has arrived.

    Bodies are streamed in both directions with backpressure, never buffered whole. If the service
    disconnects mid-response, the client's connection is aborted, so that a partial response is
    never mistaken for a complete one.
    """

    def __init__(self, exchange: "_Exchange", answer: aiohttp.ClientResponse) -> None:
        super().__init__(status_code=answer.status)
        self.raw_headers = response_headers(answer.raw_headers)
        self._exchange = exchange
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Relay the response."""
        del scope, receive
        head = {"status": self.status_code, "headers": self.raw_headers}
        await self._exchange.relay({"type": "http.response.start", **head}, self._answer, send)


async def forward(upstream: "Upstream", path: str, request: Request) -> Response:
    """Forward a request and return the response; raises the `TemperError` to respond with.

    A client that disconnects cancels the request to the service.
    """
    service = upstream.service
    if upstream.calls >= service.calls:
        raise GatewayTimeout(f"{service.calls} calls of the {service.name} are in flight")
    exchange = _Exchange(upstream, _RequestBody(request.receive))
    upstream.calls += 1
    try:
        return ProxyResponse(exchange, await exchange.start(path, request.scope["headers"]))
    except BaseException as error:
        upstream.calls -= 1
        if isinstance(error, ClientGone):
            return Response(status_code=CLIENT_CLOSED_REQUEST)
        raise


class _Exchange:
    """One request to a tool service, with its time limit."""

    def __init__(self, upstream: "Upstream", body: "_RequestBody") -> None:
        self._upstream = upstream
        self._body = body
        self._deadline = asyncio.get_running_loop().time() + upstream.service.seconds

    async def start(
        self, path: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> aiohttp.ClientResponse:
        """Send the request; returns once the head of the response has arrived.

        Raises `ClientGone`, and the `TemperError` to respond with.
        """
        return await while_connected(self._body.disconnect, self._head(path, headers))

    async def relay(self, head: Message, answer: aiohttp.ClientResponse, send: Send) -> None:
        """Relay the response with the given head, and release the call."""
        try:
            if answer.content.is_eof():  # usual for small ones: nothing to wait for
                await send(head)
                body = {"type": "http.response.body", "body": answer.content.read_nowait()}
                await send(body)
                return
            with suppress(ClientGone):
                await while_connected(self._body.disconnect, self._stream(head, answer, send))
        finally:
            self._upstream.calls -= 1
            answer.close()  # no-op for a completely relayed response

    async def _head(
        self, path: str, headers: Sequence[tuple[bytes, bytes]]
    ) -> aiohttp.ClientResponse:
        body = self._body
        try:
            async with asyncio.timeout_at(self._deadline):
                content = await body.content()
                return await self._upstream.post(path, request_headers(headers), content)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise body.failure or self._upstream.failure(error) from error

    async def _stream(self, head: Message, answer: aiohttp.ClientResponse, send: Send) -> None:
        try:
            async with asyncio.timeout_at(self._deadline):
                await send(head)
                await relay_body(answer, to_asgi(send))
        except (aiohttp.ClientError, TimeoutError) as error:
            if not isinstance(self._body.failure, ClientGone):
                # The server aborts the connection of an unfinished response.
                logger.warning("%s aborted its response: %r", self._upstream.service.name, error)


class _RequestBody:
    """The body of a request; ``failure`` is the error that ended reading it early."""

    def __init__(self, receive: Receive) -> None:
        self.failure: Exception | None = None
        self._receive = receive
        self._is_complete = False
        self._completed: asyncio.Event | None = None  # created on demand: waiting is rare

    async def content(self) -> bytes | AsyncIterator[bytes]:
        """The body if it arrived in one message, as small ones do; else its chunks as they arrive.

        Both raise `failure`.
        """
        first, more = await self._next()
        return self._chunks(first) if more else first

    async def disconnect(self) -> Message:
        """Wait for the message after the body, which is the client's disconnect."""
        if not self._is_complete:
            self._completed = self._completed or asyncio.Event()
            await self._completed.wait()
        return await self._receive()

    async def _chunks(self, chunk: bytes) -> AsyncIterator[bytes]:
        more = True
        while more:
            if chunk:
                yield chunk
            chunk, more = await self._next()
        if chunk:
            yield chunk

    async def _next(self) -> tuple[bytes, bool]:
        """A chunk, and whether there are more."""
        try:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
        except Exception as error:
            self.failure = error
            raise
        more: bool = message.get("more_body", False)
        if not more:
            self._is_complete = True
            if self._completed is not None:
                self._completed.set()
        return message.get("body", b""), more


# Shorter than the servers' keep-alive timeout, so that a reused connection is never one that
# the server is closing.
IDLE_SECONDS = 4.0
# Forwarded only if the client sets them.
SKIPPED_AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Upstream:
    """The connections to one tool service. Use as an async context manager."""

    def __init__(self, service: ToolService) -> None:
        self.service = service
        self.calls = 0
        self._key = [("Authorization", f"Bearer {service.api_key}")] if service.api_key else []
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = upstream_session(
            idle_seconds=IDLE_SECONDS, skip_auto_headers=SKIPPED_AUTO_HEADERS
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(
        self,
        path: str,
        headers: Sequence[tuple[str, str]],
        body: bytes | AsyncIterator[bytes],
    ) -> aiohttp.ClientResponse:
        """Send a request and return the response once its headers have arrived.

        Raises aiohttp's errors; `failure` turns them into ours.
        """
        if self._session is None:
            raise RuntimeError("used outside of async with")
        answer = await self._session.post(
            self.service.url + path,
            headers=[*headers, *self._key],
            data=body,
            allow_redirects=False,
        )
        if answer.status == 401:
            logger.error("the %s rejects the gateway's key", self.service.name)
        return answer

    def failure(self, error: Exception) -> TemperError:
        """The error for a client whose request failed before a response began."""
        name = self.service.name
        logger.warning("%s at %s: %r", name, self.service.url, error)
        match error:
            case aiohttp.ClientConnectorError() | aiohttp.ConnectionTimeoutError():
                trouble = self.service.trouble()
                told = f"it does not run: {trouble}; GET /v1/services says why"
                why = told if trouble else self.service.start
                return Unavailable(
                    f"the {name} cannot be reached: {why}", code=f"{name}_unavailable"
                )
            case TimeoutError():
                return GatewayTimeout(
                    f"the {name} did not answer in {self.service.seconds:g} s, the longest that "
                    "TEMPER_TOOL_CALL_SECONDS allows"
                )
        return BadGateway(f"the {name} closed the connection before it responded")
