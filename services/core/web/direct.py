"""A fast path to hot routes.

The middlewares and the router of an application take longer than some responses. This does what
they do in one step, with the same rules.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from inspect import isawaitable

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send

from services.core.web.body_limits import BodyBounds
from services.core.web.browser_guard import HostNames
from services.core.web.errors import error_answer, internal_error_response
from services.core.web.middleware import HEADER, RequestMetrics, log_failure, with_request_id

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Entrance:
    """What every request passes through; ``names`` is None for a service that requires keys."""

    metrics: RequestMetrics
    names: HostNames | None
    bounds: BodyBounds


class DirectRoutes:
    """An application of `create_app` with a fast path to some of its routes.

    These are the routes of ``routers`` that are instances of ``kind`` and have no path parameters.
    Their handler reads the request itself and returns a complete response.
    """

    def __init__(self, app: FastAPI, *, routers: Sequence[APIRouter], kind: type[APIRoute]) -> None:
        self.app = app
        self._entrance: Entrance = app.state.entrance
        self._routes: dict[tuple[str | None, str | None], tuple[APIRoute, Handler]] = {
            (method, route.path): (route, route.get_route_handler())
            for router in routers
            for route in router.routes
            if isinstance(route, kind) and "{" not in route.path
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer requests to these routes; pass all others on."""
        found = self._routes.get((scope.get("method"), scope.get("path")))
        if found is None:
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        scope, request_id = with_request_id(scope)
        scope["app"] = self.app
        response = await self._answer(scope, receive, send, *found)
        response.raw_headers.append((HEADER, request_id))
        seconds = time.perf_counter() - began
        self._entrance.metrics.count(scope, response.status_code, seconds)
        if response.status_code >= 500:
            log_failure(scope, response.status_code, seconds, request_id)
        await response(scope, receive, send)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, route: APIRoute, handler: Handler
    ) -> Response:
        names, bounds = self._entrance.names, self._entrance.bounds
        request = Request(scope, bounds.limited(scope, receive), send)
        try:
            refusal = names.refusal(scope) if names is not None else None
            if refusal is not None:
                return error_answer(refusal)
            scope["route"] = route  # the metrics label
            return await handler(request)
        except Exception as error:
            return await self._failed(request, error)

    async def _failed(self, request: Request, error: Exception) -> Response:
        """The response of the application's own handler of such errors."""
        handlers = self.app.exception_handlers
        for kind in type(error).__mro__:
            if kind in handlers:
                answer = handlers[kind](request, error)
                return await answer if isawaitable(answer) else answer
        return internal_error_response(error)
