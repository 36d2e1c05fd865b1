"""The application factory of every service."""

import warnings
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.requests import HTTPConnection

from services.contracts.errors import InvalidRequest
from services.contracts.version import VERSION
from services.core.web.auth import KeyFirst
from services.core.web.body_limits import BodyBounds, BodyLimits
from services.core.web.browser_guard import BrowserGuard, HostNames
from services.core.web.direct import Entrance
from services.core.web.errors import UnexpectedErrors, install_error_handlers
from services.core.web.health import Check, health_router
from services.core.web.middleware import HeadRequests, MetricsMiddleware, RequestIds, RequestMetrics

# FastAPI silences it where it builds the models of bodies; ours are built at their first use.
warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)

_DOCS_PAGE = (Path(__file__).parent / "docs.html").read_text(encoding="utf-8")


def create_app(
    *,
    title: str,
    description: str,
    registry: CollectorRegistry,
    checks: Mapping[str, Check],
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
    keyless_hosts: Collection[str] | None,
    larger_bodies: Mapping[str, int],
    degraded: Callable[[], Mapping[str, str]] | None = None,
    origins: Collection[str] = (),
) -> FastAPI:
    """Create an application with error bodies, request ids, limits, health checks and metrics.

    ``keyless_hosts`` is None for a service that requires keys, otherwise the host names with a
    dot under which it may be used. ``larger_bodies`` maps the paths that accept more than a few
    megabytes to their limits in bytes. ``degraded`` is as in `health_router`; ``origins`` are the
    sites whose pages may use it.
    """
    app = FastAPI(
        title=title,
        description=description,
        version=VERSION,
        lifespan=lifespan,
        dependencies=[Depends(refuse_nul)],
        generate_unique_id_function=_operation_id,
        docs_url=None,  # FastAPI's pages load their scripts from the internet
        redoc_url=None,
    )
    app.add_api_route("/docs", _docs, include_in_schema=False, response_class=HTMLResponse)
    install_error_handlers(app)
    app.include_router(health_router(checks, registry, degraded))
    metrics = RequestMetrics(registry)
    app.add_middleware(BodyLimits, larger=larger_bodies)
    app.add_middleware(UnexpectedErrors)
    if keyless_hosts is None:
        app.add_middleware(KeyFirst)
    if keyless_hosts is not None:
        app.add_middleware(BrowserGuard, allowed_hosts=keyless_hosts, origins=origins)
    app.add_middleware(MetricsMiddleware, metrics=metrics)
    app.add_middleware(RequestIds)
    app.add_middleware(HeadRequests)
    names = HostNames(keyless_hosts, origins) if keyless_hosts is not None else None
    app.state.entrance = Entrance(metrics, names, BodyBounds(larger_bodies))
    return app


async def refuse_nul(connection: HTTPConnection) -> None:
    """Refuse a NUL character in the query: no stored text has one, and SQLite reads a pattern only
    up to it, so that a filter would let everything pass."""
    for name, value in connection.query_params.multi_items():
        if "\0" in name or "\0" in value:
            shown = name.replace("\0", "")[:80]
            raise InvalidRequest(f"the parameter {shown!r} has a NUL character", param=shown)


async def _docs() -> HTMLResponse:
    """A page that renders /openapi.json without loading anything from elsewhere."""
    return HTMLResponse(_DOCS_PAGE)


def _operation_id(route: APIRoute) -> str:
    """The operation id, from which generated clients name their methods."""
    return f"{route.tags[0]}-{route.name}".replace("_", "-") if route.tags else route.name
