"""What every request passes: an id on it and in the log line of every failure, metrics, HEAD."""

import asyncio
import logging
import random
import re
import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("temper.requests")

HEADER = b"x-request-id"
_ACCEPTED = re.compile(rb"[A-Za-z0-9._-]{1,100}")


def header(scope: Scope, name: bytes) -> str | None:
    """The first header with this lowercase name, or None."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None


class RequestIds:
    """ASGI middleware: a well-formed x-request-id of the client is kept, otherwise one is made.

    The id is passed on in the request, so that the services behind log the same one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and add the id to its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope, request_id = with_request_id(scope)
        began = time.perf_counter()

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), (HEADER, request_id)]
                message = {**message, "headers": headers}
                if message["status"] >= 500:
                    log_failure(scope, message["status"], time.perf_counter() - began, request_id)
            await send(message)

        await self._app(scope, receive, send_marked)


def with_request_id(scope: Scope) -> tuple[Scope, bytes]:
    """The scope with the id among its headers, and the id."""
    others, given = [], b""
    for header in scope["headers"]:
        if header[0] == HEADER:
            given = header[1]
        else:
            others.append(header)
    request_id = given if given and _ACCEPTED.fullmatch(given) else _new_id()
    others.append((HEADER, request_id))
    return {**scope, "headers": others}, request_id


def log_failure(scope: Scope, status: int, seconds: float, request_id: bytes) -> None:
    """Log a request that failed with a server error."""
    place = (scope["method"], scope["path"])
    logger.error("%s %r -> %d in %.3f s [%s]", *place, status, seconds, request_id.decode())


def _new_id() -> bytes:
    # Not a secret, and drawn without a system call.
    return b"req-%024x" % random.getrandbits(96)


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """Requests and their latency, by route, method and status."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("method", "route", "status")
        self._requests = Counter(
            "temper_http_requests", "Requests answered", labels, registry=registry
        )
        self._seconds = Histogram(
            "temper_http_request_seconds", "Time to the first byte", labels[:2], registry=registry
        )
        self._series: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def count(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a response whose first byte came after ``seconds``."""
        # Routes rather than paths, and known methods only, bound the number of series.
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in METHODS else "other"
        requests, times = self._of(method, route, status)
        times.observe(seconds)
        requests.inc()

    def _of(self, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
        """The cached counter and histogram: looking labels up takes longer than counting."""
        found = self._series.get((method, route, status))
        if found is None:
            found = (
                self._requests.labels(method, route, status),
                self._seconds.labels(method, route),
            )
            self._series[method, route, status] = found
        return found


class MetricsMiddleware:
    """ASGI middleware that counts requests."""

    def __init__(self, app: ASGIApp, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count(scope, message["status"], time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, send_counted)


class HeadRequests:
    """ASGI middleware that answers HEAD with the head of GET's response, and ends it there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass other requests on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        begun = asyncio.Event()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})
                begun.set()

        answering = asyncio.ensure_future(self._app({**scope, "method": "GET"}, receive, send_head))
        waiting = asyncio.ensure_future(begun.wait())
        try:
            await asyncio.wait([answering, waiting], return_when=asyncio.FIRST_COMPLETED)
            if not begun.is_set():
                await answering  # it failed before a response
        finally:
            waiting.cancel()
            answering.cancel()  # a stream would go on without a reader
            await asyncio.gather(answering, waiting, return_exceptions=True)
