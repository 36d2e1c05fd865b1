"""The sandbox's web application."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.contracts.errors import Unavailable
from services.core.web.app import create_app
from services.core.web.auth import Authenticator
from services.sandbox.admission import Admission
from services.sandbox.context import SandboxContext
from services.sandbox.engine import SandboxEngine
from services.sandbox.execution import Executable, Execution, ExitReason, Limits, Runner
from services.sandbox.host import router as host
from services.sandbox.in_flight import InFlightBytes
from services.sandbox.load import FreeMemory, ProgramLoad, free_bytes, memory_groups
from services.sandbox.metrics import NetworkMetrics, QueueMetrics, RunMetrics, SessionMetrics
from services.sandbox.pool.pool import Pool
from services.sandbox.runs.routes import router as runs
from services.sandbox.runs.service import Runs
from services.sandbox.scripts.manager import Scripts
from services.sandbox.scripts.routes import router as scripts
from services.sandbox.sessions.files import router as session_files
from services.sandbox.sessions.jupyter import router as jupyter
from services.sandbox.sessions.manager import Sessions
from services.sandbox.sessions.notebooks import Notebooks
from services.sandbox.sessions.routes import router as sessions
from services.sandbox.settings import SandboxSettings

BODY_PATHS = (
    *("/run_code", "/run_jupyter", "/v1/run_code/stream", "/v1/run_cases"),
    *("/v1/sessions", "/v1/sessions/*/files/*", "/v1/scripts/*"),
)

DRAIN_SECONDS = 10.0


def create_sandbox(settings: SandboxSettings, engine: SandboxEngine) -> FastAPI:
    """Create the application on top of a running engine."""
    registry = CollectorRegistry()
    context = _create_context(settings, engine, registry)
    admission = context.runs.admission

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with context.sessions.running(), context.scripts.running():
            yield
            # The server has cancelled what was still running, but does not wait for it.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DRAIN_SECONDS):
                    await admission.drained()

    app = create_app(
        title="Temper sandbox",
        description="Run untrusted code.",
        registry=registry,
        checks={"pool": PoolCheck(engine.pool, admission).check},
        lifespan=lifespan,
        keyless_hosts=settings.keyless_hosts,
        larger_bodies=dict.fromkeys(BODY_PATHS, settings.sandbox_max_body_bytes),
    )
    app.add_middleware(InFlightBytes, limit=settings.sandbox_held_bytes)
    app.state.context = context
    for router in (runs, jupyter, sessions, session_files, scripts, host):
        app.include_router(router)
    return app


def _create_context(
    settings: SandboxSettings, engine: SandboxEngine, registry: CollectorRegistry
) -> SandboxContext:
    admission = Admission(
        settings.sandbox_concurrency, settings.busy_programs, _create_load(engine.pool)
    )
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
        scripts=Scripts(settings, engine.rooms, engine.isolation.tier),
    )


def _create_load(pool: Pool) -> ProgramLoad:
    shared = pool.shared_disk
    free_disk = None if shared is None else partial(free_bytes, shared)
    memory = FreeMemory(memory_groups())
    return ProgramLoad(pool.occupants, memory, free_disk, pool.disk_bytes)


TRUSTED_SECONDS = 2.0

_TRIVIAL = Execution(
    command=Executable(("true",)),
    limits=Limits(seconds=3.0, memory_bytes=64 << 20, output_bytes=1024),
)


class PoolCheck:
    """Health check that runs a trivial program.

    It never takes a request's slot: while all slots are taken, programs evidently run. A success is
    cached briefly.
    """

    def __init__(self, runner: Runner, admission: Admission) -> None:
        self._runner = runner
        self._admission = admission
        self._trusted_until = 0.0

    async def check(self) -> None:
        """Raise if the pool cannot run programs."""
        if self._admission.running == self._admission.slots:
            return
        if time.monotonic() < self._trusted_until:
            return
        outcome = await self._runner.run(_TRIVIAL)
        if outcome.exit_reason is not ExitReason.EXITED or outcome.return_code != 0:
            raise Unavailable(f"a trivial program exited with {outcome.return_code}")
        self._trusted_until = time.monotonic() + TRUSTED_SECONDS
