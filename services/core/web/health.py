"""Liveness, readiness by dependency, and metrics."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import BaseModel, Field

from services.core.web.errors import documented_errors

logger = logging.getLogger(__name__)

CHECK_SECONDS = 5.0

Check = Callable[[], None] | Callable[[], Awaitable[None]]
"""Raises when its dependency does not respond; a plain function is called in a thread."""


class Health(BaseModel):
    """The process is alive."""

    status: str = Field(default="ok", description="Status of the process: ok.")


class Readiness(BaseModel):
    """Whether requests can be served; each dependency is ``ok`` or says what is wrong.

    ``degraded`` names services beside this one that do not run; requests are served without them.
    """

    status: str = Field(description="Whether requests can be served: ready or not ready.")
    dependencies: dict[str, str] = Field(
        description="Condition of each dependency: ok, or what is wrong."
    )
    degraded: dict[str, str] | None = Field(
        default=None, description="Services beside this one that do not run, and why; null: none."
    )


def health_router(
    checks: Mapping[str, Check],
    registry: CollectorRegistry,
    degraded: Callable[[], Mapping[str, str]] | None = None,
) -> APIRouter:
    """Routes without authentication: they show nothing secret, and probes send no key.

    ``degraded`` returns the state of each service beside this one that does not run.
    """
    router = APIRouter(tags=["health"], responses=documented_errors())

    @router.get("/healthz", summary="Is the process alive?")
    async def healthz() -> Health:
        """Respond while the process is alive."""
        return Health()

    @router.get(
        "/readyz",
        summary="Can requests be served?",
        response_model_exclude_none=True,
        responses={503: {"model": Readiness, "description": "A dependency does not answer."}},
    )
    async def readyz(response: Response) -> Readiness:
        """Check all dependencies concurrently, with a timeout."""
        results = await asyncio.gather(*(_check(name, check) for name, check in checks.items()))
        ready = all(result == "ok" for result in results)
        others = await asyncio.to_thread(degraded) if degraded is not None else {}
        response.status_code = 200 if ready else 503
        return Readiness(
            status="ready" if ready else "not ready",
            dependencies=dict(zip(checks, results, strict=True)),
            degraded=dict(others) or None,
        )

    @router.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    def metrics() -> Response:
        """Metrics in the Prometheus text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router


async def _check(name: str, check: Check) -> str:
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            if inspect.iscoroutinefunction(check):
                await check()
            else:
                await asyncio.to_thread(check)
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:.0f} s"
    except Exception as error:
        # The cause is only logged: it may name internal addresses.
        logger.warning("%s is not ready: %s", name, error)
        return f"unavailable ({type(error).__name__})"
    return "ok"
