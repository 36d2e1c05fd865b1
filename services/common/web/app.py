"""The application factory of every service."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.common.web.errors import UnexpectedErrors, install_error_handlers
from services.common.web.health import health_router
from services.common.web.metrics import RequestMetrics
from services.common.web.request_id import RequestIds


def create_app(
    *,
    title: str,
    description: str,
    registry: CollectorRegistry,
    checks: Mapping[str, Callable[[], None]],
    lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]],
) -> FastAPI:
    """An application with error bodies, request ids, health and metrics in place."""
    app = FastAPI(title=title, description=description, version="0.1.0", lifespan=lifespan)
    install_error_handlers(app)
    app.include_router(health_router(checks, registry))
    app.add_middleware(UnexpectedErrors)
    app.add_middleware(RequestMetrics, registry=registry)
    app.add_middleware(RequestIds)
    return app
