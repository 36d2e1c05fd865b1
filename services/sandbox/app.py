"""The sandbox's application: routes in front, the queue, and the pool behind."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.core.web.app import create_app
from services.core.web.auth import Authenticator
from services.sandbox.admission import Admission
from services.sandbox.context import SandboxContext
from services.sandbox.engine import Engine
from services.sandbox.held_bytes import HeldBytes
from services.sandbox.host import router as host
from services.sandbox.metrics import QueueMetrics, RunMetrics
from services.sandbox.network.metrics import NetworkMetrics
from services.sandbox.readiness import PoolCheck
from services.sandbox.runs.routes import router as runs
from services.sandbox.runs.service import Runs
from services.sandbox.sessions.file_routes import router as session_files
from services.sandbox.sessions.jupyter_routes import router as jupyter
from services.sandbox.sessions.manager import Sessions
from services.sandbox.sessions.metrics import SessionMetrics
from services.sandbox.sessions.notebooks import Notebooks
from services.sandbox.sessions.routes import router as sessions
from services.sandbox.settings import SandboxSettings

BODY_PATHS = (
    *("/run_code", "/run_jupyter", "/v1/run_code/stream", "/v1/run_cases"),
    *("/v1/sessions", "/v1/sessions/*/files/*"),
)

DRAIN_SECONDS = 10.0


def create_sandbox(settings: SandboxSettings, engine: Engine) -> FastAPI:
    """The application over a running engine."""
    registry = CollectorRegistry()
    context = _create_context(settings, engine, registry)
    admission = context.runs.admission

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with context.sessions.running():
            yield
            # The server has cancelled what was still running, and does not wait for its end.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await admission.drained()

    app = create_app(
        title="Temper sandbox",
        description="Run code that nobody trusts.",
        registry=registry,
        checks={"pool": PoolCheck(engine.pool, admission).check},
        lifespan=lifespan,
        keyless_hosts=settings.keyless_hosts,
        larger_bodies=dict.fromkeys(BODY_PATHS, settings.sandbox_max_body_bytes),
    )
    app.add_middleware(HeldBytes, limit=settings.sandbox_held_bytes)
    app.state.context = context
    for router in (runs, jupyter, sessions, session_files, host):
        app.include_router(router)
    return app


def _create_context(
    settings: SandboxSettings, engine: Engine, registry: CollectorRegistry
) -> SandboxContext:
    admission = Admission(settings.concurrency)
    registry.register(QueueMetrics(admission, engine.languages.cache))
    if engine.pool.network is not None:
        registry.register(NetworkMetrics(engine.pool.network))
    notebooks = Notebooks(settings, engine.pool)
    return SandboxContext(
        settings=settings,
        tool_authenticator=Authenticator(settings.api_key_hashes, basic=True),
        isolation=engine.isolation,
        runs=Runs(settings, admission, engine.languages, RunMetrics(registry)),
        notebooks=notebooks,
        sessions=Sessions(notebooks, admission, SessionMetrics(registry)),
    )
