"""Who asks, as a dependency of routes: the key that a request shows.

The context of an application, `app.state.context`, holds the authenticators that are asked.
"""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from fastapi import Depends, Request, Response, Security
from fastapi.routing import APIRoute
from fastapi.security import (
    HTTPAuthorizationCredentials,
    HTTPBasic,
    HTTPBasicCredentials,
    HTTPBearer,
)

from services.core.web.auth import Authenticator

_bearer = HTTPBearer(auto_error=False, description="An API key, where the operator set any.")
_basic = HTTPBasic(auto_error=False, description="The same key as a password, under any name.")


async def _principal(
    request: Request,
    _documented: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> str:
    authenticator: Authenticator = request.app.state.context.authenticator
    return authenticator(request)


async def _tool_principal(
    request: Request,
    _bearer_documented: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
    _basic_documented: Annotated[HTTPBasicCredentials | None, Security(_basic)],
) -> str:
    return _caller_of_a_tool(request)


Principal = Annotated[str, Depends(_principal)]
"""Who asks."""

ToolPrincipal = Annotated[str, Depends(_tool_principal)]
"""Who asks for a tool: its callers may know nothing but a URL, which can hold the key."""


class DirectToolRoute(APIRoute):
    """A route for a function of exactly a request, the application's context and a `ToolPrincipal`.

    It is described like any other, and called without the search for its dependencies, which
    takes a third of the time of a request.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function, given its three parameters."""

        async def handle(request: Request) -> Response:
            caller = _caller_of_a_tool(request)
            response: Response = await self.endpoint(request, request.app.state.context, caller)
            return response

        return handle


def _caller_of_a_tool(request: Request) -> str:
    authenticator: Authenticator = request.app.state.context.tool_authenticator
    return authenticator(request)
