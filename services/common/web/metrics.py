"""Request figures of a service."""

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """ASGI middleware that counts requests and their time by route, method and status."""

    def __init__(self, app: ASGIApp, registry: CollectorRegistry) -> None:
        self._app = app
        labels = ("method", "route", "status")
        self._requests = Counter(
            "temper_http_requests", "Requests answered", labels, registry=registry
        )
        self._seconds = Histogram(
            "temper_http_request_seconds", "Time to the first byte", labels[:2], registry=registry
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Routes, not paths, and known methods: the number of series stays bounded.
                route = getattr(scope.get("route"), "path", "unmatched")
                method = scope["method"] if scope["method"] in METHODS else "other"
                self._seconds.labels(method, route).observe(time.perf_counter() - began)
                self._requests.labels(method, route, message["status"]).inc()
            await send(message)

        await self._app(scope, receive, send_counted)
