"""What every route works with, as typed dependencies."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import (
    HTTPAuthorizationCredentials,
    HTTPBasic,
    HTTPBasicCredentials,
    HTTPBearer,
)

from services.common.web.auth import Authenticator
from services.sandbox.isolation.tiers import Isolation
from services.sandbox.runs.service import Runs
from services.sandbox.sessions.manager import Sessions
from services.sandbox.sessions.notebooks import Notebooks
from services.sandbox.settings import SandboxSettings


@dataclass(frozen=True)
class SandboxContext:
    """The parts of one sandbox process."""

    settings: SandboxSettings
    authenticator: Authenticator
    isolation: Isolation
    runs: Runs
    notebooks: Notebooks
    sessions: Sessions


async def _context(request: Request) -> SandboxContext:
    context: SandboxContext = request.app.state.context
    return context


Sandbox = Annotated[SandboxContext, Depends(_context)]

_bearer = HTTPBearer(auto_error=False, description="An API key, where the operator set any.")
_basic = HTTPBasic(auto_error=False, description="The same key as a password, under any name.")


async def _principal(
    request: Request,
    sandbox: Sandbox,
    _bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    _basic: Annotated[HTTPBasicCredentials | None, Security(_basic)],
) -> str:
    return sandbox.authenticator(request)


Principal = Annotated[str, Depends(_principal)]
"""Who asks. Every route but the health routes and the ping depends on it."""


class DirectRoute(APIRoute):
    """A route for a function of exactly a request, a `Sandbox` and a `Principal`.

    It is described like any other, and called without the search for its dependencies, which
    takes a third of the time of a request.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function, given its three parameters."""

        async def handle(request: Request) -> Response:
            sandbox: SandboxContext = request.app.state.context
            response: Response = await self.endpoint(
                request, sandbox, sandbox.authenticator(request)
            )
            return response

        return handle
