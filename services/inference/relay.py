"""The relay of an engine: its only external entry point, for the gateway. vLLM listens on
loopback with routes that load weights from any folder. The relay proxies the inference routes for
callers that know its secret, and never reveals vLLM's key.
"""

import hmac
import json
import logging
import math
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

import aiohttp
from aiohttp import web

from services.contracts.errors import InvalidRequest, TemperError, Unavailable
from services.core.web.relay import relay_body, response_headers, upstream_session
from services.inference.relay_protocol import (
    ADAPTER_HEADER,
    MAX_BODY_BYTES,
    PATHS,
    REFUSAL_HEADER,
    Refusal,
    RelayEndpoint,
    ServedAdapter,
    publish_endpoint,
    withdraw_endpoint,
)

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 2.0
"""Shorter than vLLM's, so that a connection that vLLM is closing is never reused."""
END_SECONDS = 5.0
ADDED_BYTES = 64 << 10
"""Upper bound of what the gateway adds to a body."""
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the operator's choice, as in a container
ABORTED = b'"finish_reason":"abort"'
"""How vLLM finishes requests in progress at shutdown: with the partial answer, as if it were
complete. No answer's text can contain this, since JSON escapes its quotes."""


@dataclass(frozen=True)
class Destination:
    """The server that answers a request: its address without a path, its key, and fields that
    override those of the request's body."""

    url: str
    key: str = field(repr=False)
    fields: Mapping[str, str | int] = field(default_factory=dict)


class NotAdmitted(Exception):
    """The engine accepts no requests; the gateway gets the reason and looks up the model again."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal


class RelayedEngine(Protocol):
    """The engine behind a relay."""

    def using(self, adapter: ServedAdapter | None) -> AbstractAsyncContextManager[Destination]:
        """Reserve a server for one request, with an adapter of the base or without. Entering raises
        `NotAdmitted`, or the `TemperError` to answer with.
        """
        ...


class Relay:
    """Proxies requests to an engine, response bytes unchanged; an async context manager. A client
    disconnect cancels the request to the engine, and with it the generation. ``url`` is the relay's
    address, on a free port of ``host``.
    """

    def __init__(self, engine: RelayedEngine, host: str) -> None:
        self.secret = secrets.token_urlsafe(32)
        self.url = ""
        self._engine = engine
        self._host = host
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._session = await self._stack.enter_async_context(
            upstream_session(idle_seconds=KEEP_ALIVE_SECONDS)
        )
        application = web.Application(client_max_size=MAX_BODY_BYTES + ADDED_BYTES)
        application.add_routes([web.post(path, self._answer) for path in PATHS])
        runner = web.AppRunner(
            application, handler_cancellation=True, access_log=None, shutdown_timeout=END_SECONDS
        )
        self._stack.push_async_callback(runner.cleanup)
        await runner.setup()
        await web.TCPSite(runner, self._host, 0).start()
        port = runner.addresses[0][1]
        self.url = f"http://{_reachable(self._host)}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        expected = f"Bearer {self.secret}".encode()
        given = request.headers.get("Authorization", "").encode(errors="replace")
        if not hmac.compare_digest(given, expected):
            return web.Response(status=401)
        try:
            async with self._engine.using(_adapter(request)) as destination:
                return await self._forward(request, destination)
        except NotAdmitted as refused:
            return _refusal(refused.refusal)
        except TemperError as error:
            return _error(error)

    async def _forward(self, request: web.Request, destination: Destination) -> web.StreamResponse:
        body = await request.read()
        if destination.fields:
            body = _with_fields(body, destination.fields)
        try:
            answer = await self._session.post(
                destination.url + request.path,
                data=body,
                headers={
                    "Authorization": f"Bearer {destination.key}",
                    "Content-Type": "application/json",
                },
                allow_redirects=False,
            )
        except aiohttp.ClientConnectorError as error:
            logger.warning("the engine cannot be reached: %r", error)
            return _refusal(Refusal.ENGINE_GONE)
        except aiohttp.ClientError as error:
            logger.warning("the engine did not answer: %r", error)
            return _refusal(Refusal.ENGINE_DIED)
        async with answer:
            if answer.content_type == "application/json":
                return await _forward_whole(answer)
            return await _forward_stream(request, answer)


@contextmanager
def published(relay: Relay, epoch: int, job_dir: Path) -> Iterator[None]:
    """Direct gateways to the relay of a job running in ``epoch``."""
    publish_endpoint(job_dir, RelayEndpoint(epoch=epoch, url=relay.url, secret=relay.secret))
    try:
        yield
    finally:
        withdraw_endpoint(job_dir)


def _reachable(host: str) -> str:
    """The address of ``host`` in a URL; the hostname's for a relay that listens on all
    interfaces."""
    if host == ANY_ADDRESS:
        return socket.gethostbyname(socket.gethostname())
    return f"[{host}]" if ":" in host else host


async def _forward_whole(answer: aiohttp.ClientResponse) -> web.StreamResponse:
    try:
        body = await answer.read()
    except aiohttp.ClientPayloadError as error:
        logger.warning("the engine broke off its answer: %r", error)
        return _refusal(Refusal.ENGINE_DIED)
    if ABORTED in body:
        logger.warning("the engine ended before its answer")
        return _refusal(Refusal.ENGINE_DIED)
    return web.Response(status=answer.status, headers=_response_headers(answer), body=body)


async def _forward_stream(
    request: web.Request, answer: aiohttp.ClientResponse
) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=_response_headers(answer))
    await response.prepare(request)

    async def write(chunk: bytes, *, last: bool) -> None:
        del last  # aiohttp ends the body when the response is returned
        await response.write(chunk)

    try:
        await relay_body(answer, write, _NotAborted())
    except aiohttp.ClientPayloadError as error:
        # A partial answer must not be mistaken for a complete one.
        logger.warning("the engine broke off its answer: %r", error)
        if request.transport is not None:
            request.transport.abort()
    return response


class _NotAborted:
    """Passes a stream on as it is; raises aiohttp's error at the end of an aborted answer."""

    def __init__(self) -> None:
        self._end = b""

    def __call__(self, chunk: bytes, *, last: bool) -> bytes:
        del last
        self._end += chunk
        if ABORTED in self._end:
            raise aiohttp.ClientPayloadError("it was aborted")
        self._end = self._end[-len(ABORTED) :]
        return chunk


def _response_headers(answer: aiohttp.ClientResponse) -> list[tuple[str, str]]:
    headers = response_headers(answer.raw_headers)
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _adapter(request: web.Request) -> ServedAdapter | None:
    value = request.headers.get(ADAPTER_HEADER)
    if value is None:
        return None
    try:
        return ServedAdapter.from_header(value)
    except ValueError as error:
        raise InvalidRequest(f"{ADAPTER_HEADER} is not valid") from error


def _with_fields(body: bytes, fields: Mapping[str, str | int]) -> bytes:
    """A body with these fields overridden."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("the body is not JSON") from error
    return json.dumps({**value, **fields}).encode()


def _refusal(why: Refusal) -> web.Response:
    return web.Response(status=503, headers={REFUSAL_HEADER: why.value})


def _error(error: TemperError) -> web.Response:
    """An error of loading an adapter, as OpenAI writes errors."""
    status, type_ = (400, "invalid_request_error")
    headers = {}
    if not isinstance(error, InvalidRequest):
        status, type_ = (503, "server_error")
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(math.ceil(error.retry_after))
    detail = {"message": error.message, "type": type_, "param": error.param, "code": error.code}
    return web.Response(
        status=status,
        text=json.dumps({"error": detail}),
        content_type="application/json",
        headers=headers,
    )
