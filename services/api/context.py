"""What every route works with, as typed dependencies."""

from dataclasses import dataclass
from threading import BoundedSemaphore
from typing import Annotated

from fastapi import Depends, Header, Request, Security
from fastapi.security import (
    HTTPAuthorizationCredentials,
    HTTPBasic,
    HTTPBasicCredentials,
    HTTPBearer,
)

from services.api.dispatcher.dispatcher import Dispatcher
from services.api.settings import ApiSettings
from services.common.artifacts import Artifacts
from services.common.db.engine import Database
from services.common.web.auth import Authenticator


@dataclass(frozen=True)
class GatewayContext:
    """The parts of one gateway process."""

    settings: ApiSettings
    database: Database
    artifacts: Artifacts
    dispatcher: Dispatcher
    authenticator: Authenticator
    tool_authenticator: Authenticator
    stream_places: BoundedSemaphore


async def _context(request: Request) -> GatewayContext:
    context: GatewayContext = request.app.state.context
    return context


Gateway = Annotated[GatewayContext, Depends(_context)]


_bearer = HTTPBearer(auto_error=False, description="An API key, where the operator set any.")


async def _principal(
    request: Request,
    gateway: Gateway,
    _documented: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> str:
    return gateway.authenticator(request)


Principal = Annotated[str, Depends(_principal)]
"""Who asks. Every route depends on it, but those of health and of tools."""


_basic = HTTPBasic(auto_error=False, description="The same key as password, under any name.")


async def _tool_principal(
    request: Request,
    gateway: Gateway,
    _bearer_documented: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    _basic_documented: Annotated[HTTPBasicCredentials | None, Security(_basic)],
) -> str:
    return gateway.tool_authenticator(request)


ToolPrincipal = Annotated[str, Depends(_tool_principal)]
"""Who asks for a tool: its callers may know nothing but a URL, which can hold the key."""

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="A retry with the same key and body gets the first answer again.",
    ),
]
