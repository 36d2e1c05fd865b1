"""Dependencies that routes share: the gateway's context and the Idempotency-Key header."""

from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Annotated

from fastapi import Depends, Header, Request

from services.api.dashboard.sessions import BrowserSessions
from services.api.dispatcher import Dispatcher
from services.api.file_rows.reader import RowReader
from services.api.responses.background import BackgroundRuns
from services.api.serving.forward import Inference
from services.api.settings import ApiSettings
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.web.auth import Authenticator
from services.datasets.token_counts.counter import TokenCounter


@dataclass(frozen=True)
class GatewayContext:
    """State that the routes of one gateway process share."""

    settings: ApiSettings
    database: Database
    artifacts: Artifacts
    dispatcher: Dispatcher
    authenticator: Authenticator
    tool_authenticator: Authenticator
    sessions: BrowserSessions
    stream_slots: BoundedSemaphore
    inference: Inference
    rows: RowReader
    tokens: TokenCounter
    responses: BackgroundRuns


async def _context(request: Request) -> GatewayContext:
    context: GatewayContext = request.app.state.context
    return context


Gateway = Annotated[GatewayContext, Depends(_context)]

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="A retry with the same key and body returns the first response.",
    ),
]
