"""Request metrics of a service."""

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
