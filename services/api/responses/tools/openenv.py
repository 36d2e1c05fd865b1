"""OpenEnv environments that the operator allows, as tools of a response.

A run of a response has an episode of its own, from the environment's reset on. OpenAI's API has no
such tool: calls are shown as those of an MCP server.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from pydantic import ValidationError

from services.api.responses.tools.base import Opened
from services.api.responses.tools.mcp import allowed_tools, opened_server, server_url
from services.contracts.base import JsonObject
from services.contracts.errors import BadGateway, InvalidRequest
from services.core.operator_environment import OperatorEnvironment
from services.dialects.fields import text_field
from services.rollouts.tools.base import EpisodeStart, ToolError
from services.rollouts.tools.configuration import OpenEnvConfig
from services.rollouts.tools.endpoints import plain_endpoint
from services.rollouts.tools.openenv import OpenEnvServer

CAPACITY_SECONDS = 60
"""How long a response waits for room at the server."""


class OpenEnvSource:
    """An environment of MCP's kind, which lists its tools."""

    names: Sequence[str] = ()

    def __init__(
        self, tool: JsonObject, place: str, allowed: Sequence[str], operator: OperatorEnvironment
    ) -> None:
        self.label = text_field(tool, "server_label", place)
        url = server_url(tool, place, allowed)
        try:
            self._config = OpenEnvConfig(
                url=url, capacity_timeout=CAPACITY_SECONDS, reset=tool.get("reset") or {}
            )
        except ValidationError:
            raise InvalidRequest("is not an object", param=f"{place}.reset") from None
        self._allowed = allowed_tools(tool.get("allowed_tools"), f"{place}.allowed_tools")
        self._endpoint = plain_endpoint(url, operator)

    async def open(self, stack: AsyncExitStack) -> Opened:
        """Begin an episode and ask for its tools; raises `BadGateway`."""
        environment = OpenEnvServer(self._endpoint, self._config, action=None)
        server = await stack.enter_async_context(environment)
        try:
            session = await stack.enter_async_context(server.session(EpisodeStart()))
        except ToolError as error:
            message = f"the environment {self.label!r} begins no episode: {error.error}"
            raise BadGateway(message, code="environment_failed") from error
        return await opened_server(self.label, session.listed, session.call, self._allowed)
