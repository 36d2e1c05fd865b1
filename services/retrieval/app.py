"""The retrieval service's FastAPI application."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from services.core.web.app import create_app
from services.core.web.auth import Authenticator, DirectToolRoute
from services.core.web.direct import DirectRoutes
from services.retrieval.context import RetrievalContext
from services.retrieval.engine.engine import SearchEngine
from services.retrieval.engine.monitoring import EncoderCheck, EngineMetrics, IndexCheck
from services.retrieval.routes.documents import router as documents
from services.retrieval.routes.indexes import router as indexes
from services.retrieval.routes.retrieve import router as retrieve
from services.retrieval.routes.search import router as search
from services.retrieval.settings import RetrievalSettings

BODY_PATHS = ("/retrieve", "/v1/search", "/v1/indexes/*/documents", "/v1/indexes/*/documents/*")
HOT_ROUTERS = (retrieve, search)


def create_retrieval(
    settings: RetrievalSettings, engine: SearchEngine, registry: CollectorRegistry
) -> DirectRoutes:
    """Build the application; the engine runs for the application's lifespan."""
    registry.register(EngineMetrics(engine))

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with engine.running():
            yield

    app = create_app(
        title="Temper retrieval",
        description="Search passages by their words and by their meaning.",
        registry=registry,
        checks={"index": IndexCheck(engine).check, "encoder": EncoderCheck(engine).check},
        lifespan=lifespan,
        keyless_hosts=settings.keyless_hosts,
        larger_bodies=dict.fromkeys(BODY_PATHS, settings.retrieval_max_body_bytes),
    )
    app.state.context = RetrievalContext(
        settings=settings,
        tool_authenticator=Authenticator(settings.api_key_hashes, basic=True),
        engine=engine,
    )
    for router in (*HOT_ROUTERS, indexes, documents):
        app.include_router(router)
    return DirectRoutes(app, routers=HOT_ROUTERS, kind=DirectToolRoute)
