"""The routes of a tool service as the gateway answers them."""

from fastapi import APIRouter

from services.api.forwards.exchange import Forwarded
from services.api.forwards.service import ToolRoute
from services.api.forwards.upstream import Upstream
from services.contracts.errors import (
    AuthenticationFailed,
    BadGateway,
    GatewayTimeout,
    PayloadTooLarge,
    Unavailable,
)
from services.core.web.auth import ToolPrincipal
from services.core.web.errors import documented_errors
from services.core.web.json_body import documented_body

REFUSALS = (AuthenticationFailed, PayloadTooLarge, BadGateway, Unavailable, GatewayTimeout)


def router_of(upstream: Upstream) -> APIRouter:
    """Routes that pass requests on to a tool service, for whoever has a key of the gateway."""
    router = APIRouter(tags=[upstream.service.name], responses=documented_errors(*REFUSALS))
    for route in upstream.service.routes:
        _add(router, upstream, route)
    return router


def _add(router: APIRouter, upstream: Upstream, route: ToolRoute) -> None:
    async def forward(_principal: ToolPrincipal) -> Forwarded:
        return Forwarded(upstream, route.path)

    router.add_api_route(
        route.path,
        forward,
        methods=["POST"],
        name=route.path.strip("/"),
        summary=route.summary,
        description=f"Passed on to the {upstream.service.name} as it is.",
        responses={200: {"model": route.answer}},
        openapi_extra=documented_body(route.request, route.examples),
    )
