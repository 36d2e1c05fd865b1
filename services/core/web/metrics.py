"""Request figures of a service."""

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestFigures:
    """Requests and their time, by route, method and status."""

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
        """Count the answer to a request, whose first byte came after so many seconds."""
        # Routes, not paths, and known methods: the number of series stays bounded.
        route = getattr(scope.get("route"), "path", "unmatched")
        method = scope["method"] if scope["method"] in METHODS else "other"
        requests, times = self._of(method, route, status)
        times.observe(seconds)
        requests.inc()

    def _of(self, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
        """The figures of such answers; kept, for finding them takes longer than counting."""
        found = self._series.get((method, route, status))
        if found is None:
            found = (
                self._requests.labels(method, route, status),
                self._seconds.labels(method, route),
            )
            self._series[method, route, status] = found
        return found


class RequestMetrics:
    """ASGI middleware that counts requests."""

    def __init__(self, app: ASGIApp, figures: RequestFigures) -> None:
        self._app = app
        self._figures = figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._figures.count(scope, message["status"], time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, send_counted)
