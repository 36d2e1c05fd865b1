"""The routes of the sandbox and of the retrieval service, proxied by the gateway."""

from fastapi import APIRouter, Request, Response

from services.api.context import Gateway
from services.api.examples import CASES, CELLS, PROGRAM, QUERIES, SEARCH
from services.api.proxy import ToolRoute, ToolService, Upstream, forward
from services.api.settings import ApiSettings
from services.api.stack import degraded
from services.contracts.errors import (
    AuthenticationFailed,
    BadGateway,
    GatewayTimeout,
    PayloadTooLarge,
    Unavailable,
)
from services.contracts.retrieval.search import (
    RetrieveRequest,
    RetrieveResponse,
    SearchRequest,
    SearchResponse,
)
from services.contracts.sandbox.cases import RunCasesRequest, RunCasesResponse
from services.contracts.sandbox.programs import RunCodeRequest, RunCodeResponse
from services.contracts.sandbox.sessions import RunJupyterRequest, RunJupyterResponse
from services.core.web.auth import DirectToolRoute, ToolPrincipal
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body


def tool_services(settings: ApiSettings) -> tuple[ToolService, ...]:
    """All tool services, as configured."""
    return (sandbox(settings), retrieval(settings))


def sandbox(settings: ApiSettings) -> ToolService:
    """The code sandbox."""
    key = settings.sandbox_api_key
    return ToolService(
        name="sandbox",
        url=settings.sandbox_url,
        api_key=key.get_secret_value() if key is not None else None,
        start="`temper serve sandbox` starts it, TEMPER_SANDBOX_URL says where it is",
        trouble=lambda: degraded(settings.home).get("sandbox"),
        routes=(
            ToolRoute("/run_code", "Run code", RunCodeRequest, RunCodeResponse, PROGRAM),
            ToolRoute(
                "/run_jupyter",
                "Run the cells of a notebook",
                RunJupyterRequest,
                RunJupyterResponse,
                CELLS,
            ),
            ToolRoute(
                "/v1/run_cases",
                "Run a program on many inputs",
                RunCasesRequest,
                RunCasesResponse,
                CASES,
            ),
        ),
        body_bytes=settings.sandbox_max_body_bytes,
        seconds=settings.tool_call_seconds,
        calls=settings.max_tool_calls,
    )


def retrieval(settings: ApiSettings) -> ToolService:
    """The retrieval service."""
    key = settings.retrieval_api_key
    return ToolService(
        name="retrieval",
        url=settings.retrieval_url,
        api_key=key.get_secret_value() if key is not None else None,
        start="`temper serve retrieval` starts it, TEMPER_RETRIEVAL_URL says where it is",
        trouble=lambda: degraded(settings.home).get("retrieval"),
        routes=(
            ToolRoute("/retrieve", "Search passages", RetrieveRequest, RetrieveResponse, QUERIES),
            ToolRoute("/v1/search", "Search an index", SearchRequest, SearchResponse, SEARCH),
        ),
        body_bytes=settings.retrieval_max_body_bytes,
        seconds=settings.tool_call_seconds,
        calls=settings.max_tool_calls,
    )


ERRORS = (AuthenticationFailed, PayloadTooLarge, BadGateway, Unavailable, GatewayTimeout)


def tool_router(upstream: Upstream) -> APIRouter:
    """Routes that proxy a tool service for clients with a key of the gateway."""
    router = APIRouter(
        tags=[upstream.service.name],
        responses=documented_errors(*ERRORS),
        route_class=DirectToolRoute,
    )
    for route in upstream.service.routes:
        _add(router, upstream, route)
    return router


def _add(router: APIRouter, upstream: Upstream, route: ToolRoute) -> None:
    async def proxy(request: Request, _gateway: Gateway, _principal: ToolPrincipal) -> Response:
        return await forward(upstream, route.path, request)

    router.add_api_route(
        route.path,
        proxy,
        methods=["POST"],
        name=route.path.rpartition("/")[2],
        summary=route.summary,
        description=f"Proxied to the {upstream.service.name} unchanged.",
        responses={200: {"model": route.answer}},
        openapi_extra=documented_body(route.request, route.examples),
    )
