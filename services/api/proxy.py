"""A streaming reverse proxy to the tool services: connections, headers, and error responses."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self

import aiohttp
from fastapi.openapi.models import Example
from pydantic import BaseModel
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from services.contracts.errors import BadGateway, GatewayTimeout, TemperError, Unavailable
from services.core.web.disconnect import ClientGone, while_connected


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
    operator how to start it. A request may have ``body_bytes`` and take ``seconds``; more than
    ``calls`` concurrent requests are rejected.
    """

    name: str
    url: str
    api_key: str | None = field(repr=False)
    start: str
    routes: tuple[ToolRoute, ...]
    body_bytes: int
    seconds: float
    calls: int


logger = logging.getLogger(__name__)


class ProxyResponse(Response):
    """Streams the response of a tool service.

    Bodies are streamed in both directions with backpressure, never buffered whole.
    A client that disconnects cancels the request to the service. If the service breaks off
    in the middle of its response, the client's connection is aborted, so that a part is never
    mistaken for the whole.
    """

    def __init__(self, upstream: "Upstream", path: str) -> None:
        super().__init__()
        self._upstream = upstream
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Proxy the request; raises the `TemperError` to respond with."""
        service = self._upstream.service
        if self._upstream.calls >= service.calls:
            raise GatewayTimeout(f"{service.calls} calls of the {service.name} are in flight")
        self._upstream.calls += 1
        body = _RequestBody(receive)
        try:
            with suppress(ClientGone):
                await while_connected(body.after, self._exchange(scope, body, send))
        finally:
            self._upstream.calls -= 1

    async def _exchange(self, scope: Scope, body: "_RequestBody", send: Send) -> None:
        started = False
        try:
            async with asyncio.timeout(self._upstream.service.seconds):
                headers = request_headers(scope["headers"])
                async with await self._upstream.post(self._path, headers, body.pieces()) as answer:
                    started = True
                    await _relay(answer, send)
        except (aiohttp.ClientError, TimeoutError) as error:
            if isinstance(body.failure, ClientGone):
                return
            if started:
                # The server aborts the connection of an unfinished response.
                logger.warning("%s broke off its response: %r", self._upstream.service.name, error)
                return
            raise body.failure or self._upstream.failure(error) from error


async def _relay(answer: aiohttp.ClientResponse, send: Send) -> None:
    headers = response_headers(answer.raw_headers)
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    is_whole = False
    while not is_whole:
        piece = await answer.content.readany()
        is_whole = answer.content.at_eof()
        await send({"type": "http.response.body", "body": piece, "more_body": not is_whole})


class _RequestBody:
    """The body of a request; ``failure`` is the error that ended reading it early."""

    def __init__(self, receive: Receive) -> None:
        self.failure: Exception | None = None
        self._receive = receive
        self._is_complete = asyncio.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The chunks as they arrive; raises `failure`."""
        try:
            more = True
            while more:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                more = message.get("more_body", False)
                if piece := message.get("body", b""):
                    yield piece
        except Exception as error:
            self.failure = error
            raise
        self._is_complete.set()

    async def after(self) -> Message:
        """The message after the body, which is the client's disconnect."""
        await self._is_complete.wait()
        return await self._receive()


logger = logging.getLogger(__name__)

CONNECT_SECONDS = 5.0
# Shorter than the servers' keep-alive timeout, so that a reused connection is never one that
# the server is closing.
IDLE_SECONDS = 4.0
# Forward the client's values or none.
SKIPPED_AUTO_HEADERS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


class Upstream:
    """The connections to one tool service. Use as an async context manager."""

    def __init__(self, service: ToolService) -> None:
        self.service = service
        self.calls = 0
        self._key = [("Authorization", f"Bearer {service.api_key}")] if service.api_key else []
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS),
            auto_decompress=False,
            skip_auto_headers=SKIPPED_AUTO_HEADERS,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def post(
        self, path: str, headers: Sequence[tuple[str, str]], body: AsyncIterator[bytes]
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
                return Unavailable(
                    f"the {name} cannot be reached; {self.service.start}",
                    code=f"{name}_unavailable",
                )
            case TimeoutError():
                return GatewayTimeout(
                    f"the {name} did not answer in {self.service.seconds:g} s, the longest that "
                    "TEMPER_TOOL_CALL_SECONDS allows"
                )
        return BadGateway(f"the {name} closed the connection before it responded")


RawHeaders = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"),
        *(b"transfer-encoding", b"proxy-authenticate", b"proxy-authorization"),
    }
)
# Credentials for the gateway, and headers about its own origin, are not forwarded.
GATEWAY_ONLY = frozenset({b"authorization", b"cookie", b"host", b"origin", b"referer", b"expect"})
# The gateway sets these itself.
SET_BY_GATEWAY = frozenset({b"date", b"server", b"x-request-id", b"set-cookie"})


def request_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The headers forwarded to the service."""
    kept = _without(headers, HOP_BY_HOP | GATEWAY_ONLY)
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in kept]


def response_headers(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers returned to the client."""
    return _without(headers, HOP_BY_HOP | SET_BY_GATEWAY)


def _without(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> RawHeaders:
    lowered = [(name.lower(), value) for name, value in headers]
    for name, value in lowered:
        if name == b"connection":  # it names further hop-by-hop headers
            dropped = dropped | {part.strip().lower() for part in value.split(b",")}
        elif name == b"transfer-encoding":  # it overrides any content-length
            dropped = dropped | {b"content-length"}
    return [(name, value) for name, value in lowered if name not in dropped]
