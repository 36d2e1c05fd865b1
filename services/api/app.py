"""The gateway application: the REST API, the tool proxy and the dispatcher."""

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from threading import BoundedSemaphore

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from services.api.alerts.routes import router as alerts
from services.api.alerts.signals import AlertBounds
from services.api.alerts.watch import AlertWatch
from services.api.batches.routes import router as batches
from services.api.campaigns.routes import router as campaigns
from services.api.checks.routes import router as checks
from services.api.context import GatewayContext
from services.api.dashboard.routes import router as dashboard
from services.api.dashboard.sessions import BrowserSessions
from services.api.database_errors import install_database_errors
from services.api.datasets.routes import router as datasets
from services.api.dispatcher import Dispatcher
from services.api.evaluations.routes import router as evaluations
from services.api.exports.routes import models as model_exports
from services.api.exports.routes import router as exports
from services.api.file_rows.reader import RowReader
from services.api.file_rows.routes import router as file_rows
from services.api.files.expiry import FileExpiry
from services.api.files.routes import router as files
from services.api.files.service import remove_orphans
from services.api.files.upload import FORM_BYTES, remove_abandoned_uploads
from services.api.fine_tuning.permissions import router as permissions
from services.api.fine_tuning.routes import forecast_router as forecasts
from services.api.fine_tuning.routes import router as fine_tuning
from services.api.graders.routes import router as graders
from services.api.hub_downloads.routes import models as model_downloads
from services.api.hub_downloads.routes import router as downloads
from services.api.indexing.routes import router as indexing
from services.api.jobs.artifacts import router as artifacts
from services.api.jobs.attempts import router as attempts
from services.api.jobs.curves import router as curves
from services.api.jobs.followed_events import router as followed_events
from services.api.jobs.removal import Retention
from services.api.jobs.routes import router as jobs
from services.api.jobs.routes import workers_router as workers
from services.api.merges.routes import models as model_merges
from services.api.merges.routes import router as merges
from services.api.messages.routes import PATHS as MESSAGES_PATHS
from services.api.messages.routes import router as messages
from services.api.metrics import create_registry
from services.api.models.routes import folders_router as model_folders
from services.api.models.routes import router as models
from services.api.notes.routes import found_router as found_notes
from services.api.notes.routes import router as notes
from services.api.proxy import Upstream
from services.api.responses.background import BackgroundRuns
from services.api.responses.expiry import ResponseExpiry
from services.api.responses.routes import PATH as RESPONSES_PATH
from services.api.responses.routes import router as responses
from services.api.rollouts.routes import router as rollouts
from services.api.serving.forward import Inference
from services.api.serving.locator import Locator
from services.api.serving.routes import inference
from services.api.serving.routes import models as model_deployments
from services.api.serving.routes import router as servings
from services.api.serving.routes import usage as key_usage
from services.api.serving.servings import Servings
from services.api.serving.usage import UsageLog
from services.api.settings import ApiSettings
from services.api.stack import degraded
from services.api.stack import router as stack
from services.api.tool_routes import tool_router, tool_services
from services.api.trajectories.routes import ROUTERS as TRAJECTORIES
from services.api.uploads.parts import UploadParts
from services.api.uploads.routes import router as uploads
from services.api.webhooks.routes import router as webhooks
from services.api.webhooks.sender import WebhookSender
from services.contracts.data.files import MAX_PART_BYTES
from services.contracts.errors import Unavailable
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.core.web.app import create_app
from services.core.web.auth import Authenticator, DirectRoute
from services.core.web.direct import DirectRoutes
from services.datasets.token_counts.counter import TokenCounter
from services.inference.relay_protocol import MAX_BODY_BYTES, PATHS
from services.jobs.broker import create_celery_app, ping_broker


def create_api(settings: ApiSettings) -> DirectRoutes:
    """The gateway application; startup migrates the database and starts the dispatcher."""
    context = _create_context(settings)
    queue = create_celery_app(settings)
    tools = [Upstream(service) for service in tool_services(settings)]
    sender = WebhookSender(context.database, private_allowed=settings.webhook_private_addresses)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await run_in_threadpool(migrate, context.database)
        await run_in_threadpool(remove_abandoned_uploads, context.artifacts.uploads())
        await run_in_threadpool(remove_orphans, context.database, context.artifacts)
        await run_in_threadpool(UploadParts(context.artifacts.parts()).remove_stale)
        context.dispatcher.start()
        sender.start()
        try:
            async with AsyncExitStack() as connections:
                for tool in tools:
                    await connections.enter_async_context(tool)
                await connections.enter_async_context(context.inference.usage)
                await connections.enter_async_context(context.inference)
                await connections.enter_async_context(context.rows)
                await connections.enter_async_context(context.responses)
                yield
        finally:
            await run_in_threadpool(context.dispatcher.stop)
            await run_in_threadpool(sender.stop)
            context.database.close()

    app = create_app(
        title="Temper",
        description="Queue post-training jobs and follow them.",
        registry=create_registry(context.database),
        checks={
            "database": context.database.ping,
            "broker": lambda: ping_broker(queue),
            "artifacts": lambda: _check_writable(context.artifacts),
            "dispatcher": context.dispatcher.check,
        },
        degraded=lambda: degraded(settings.home),
        lifespan=lifespan,
        keyless_hosts=settings.keyless_hosts,
        origins=settings.cors_origins,
        larger_bodies={
            "/v1/files": settings.max_upload_bytes + FORM_BYTES,
            "/v1/uploads/*/parts": MAX_PART_BYTES + FORM_BYTES,
            **dict.fromkeys((*PATHS, *MESSAGES_PATHS, RESPONSES_PATH), MAX_BODY_BYTES),
            **_tool_body_limits(tools),
        },
    )
    install_database_errors(app)
    app.state.context = context
    proxies = [tool_router(tool) for tool in tools]
    serving = (inference, messages, responses, key_usage, model_deployments, servings)
    moved = (model_merges, merges, model_exports, exports, model_downloads, downloads)
    registered = (models, model_folders, *moved)
    training = (fine_tuning, forecasts, checks, permissions, graders)
    generation = (evaluations, rollouts, batches, campaigns, datasets, *TRAJECTORIES)
    storage = (files, file_rows, uploads, artifacts, notes, found_notes)
    alerting = (alerts, webhooks)
    following = (curves, attempts, followed_events, dashboard)
    others = (*storage, *alerting, indexing, jobs, workers, stack, *following)
    for router in (*proxies, *registered, *training, *serving, *generation, *others):
        app.include_router(router)
    return DirectRoutes(app, routers=(*proxies, inference, messages), kind=DirectRoute)


def open_to_pages(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """The application with answers that pages of these sites may read (CORS), and their
    preflights."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["*"],
        allow_headers=["*"],
        expose_headers=["x-request-id", "retry-after"],
    )


def _create_context(settings: ApiSettings) -> GatewayContext:
    settings.home.mkdir(parents=True, exist_ok=True)
    database = Database(settings.database)
    artifacts = Artifacts(settings.home)
    dispatcher = Dispatcher(
        database,
        create_celery_app(settings),
        reconcile_seconds=settings.reconcile_seconds,
        lease_seconds=settings.lease_seconds,
        grace_seconds=settings.grace_seconds,
        sweeps=(
            Retention(artifacts, settings.retention_days, settings.retention_jobs).apply,
            FileExpiry(artifacts).apply,
            ResponseExpiry(settings.response_days, settings.response_bytes).apply,
            AlertWatch(settings.home, _alert_bounds(settings)).apply,
        ),
    )
    keys = settings.api_key_hashes
    locator = Locator(Servings(database, settings, dispatcher.nudge))
    sessions = BrowserSessions(settings.home, keys)
    forward = Inference(locator, UsageLog(database), settings)
    return GatewayContext(
        settings=settings,
        database=database,
        artifacts=artifacts,
        dispatcher=dispatcher,
        authenticator=Authenticator(keys, session=sessions.principal),
        tool_authenticator=Authenticator(keys, basic=True, session=sessions.principal),
        sessions=sessions,
        stream_slots=BoundedSemaphore(settings.max_event_streams),
        inference=forward,
        rows=RowReader(),
        tokens=TokenCounter(settings.home),
        responses=BackgroundRuns(database, forward, settings),
    )


def _alert_bounds(settings: ApiSettings) -> AlertBounds:
    return AlertBounds(
        kl=settings.alert_kl,
        mismatch=settings.alert_sampler_kl,
        failure_share=settings.alert_failure_share,
        reward_drop=settings.alert_reward_drop,
        wait_seconds=settings.alert_wait_seconds,
        disk_share=settings.alert_disk_share,
    )


def _tool_body_limits(tools: Sequence[Upstream]) -> dict[str, int]:
    """The body limit of each proxied route."""
    services = [tool.service for tool in tools]
    return {route.path: each.body_bytes for each in services for route in each.routes}


def _check_writable(artifacts: Artifacts) -> None:
    if not os.access(artifacts.root, os.W_OK):
        raise Unavailable(f"{artifacts.root} is not writable")
