"""Tools of MCP servers that the operator allows."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from pydantic import AnyHttpUrl, TypeAdapter, ValidationError

from services.api.responses.tools.base import (
    LONGEST_OUTPUT,
    Opened,
    Reply,
    Shown,
    arguments_of,
    refuse,
)
from services.contracts.base import JsonObject
from services.contracts.errors import BadGateway, InvalidRequest, PermissionDenied
from services.contracts.origins import origin_of
from services.core.operator_environment import OperatorEnvironment
from services.dialects.fields import function_tool, text_field, wrong
from services.dialects.responses_writer import ServerCall, Unnumbered
from services.rollouts.tools.base import ToolError, ToolResult
from services.rollouts.tools.configuration import McpConfig
from services.rollouts.tools.endpoints import plain_endpoint
from services.rollouts.tools.mcp import McpServer
from services.rollouts.tools.mcp_calls import call_tool

MAX_TOOLS = 256
"""Tools of one server."""

_URL = TypeAdapter(AnyHttpUrl)
_REFUSED = {
    "connector_id": "only servers with a URL are called",
    "authorization": "the operator sets the key of a server (TEMPER_ENDPOINT_KEYS)",
    "headers": "the operator sets the key of a server (TEMPER_ENDPOINT_KEYS)",
}


class McpSource:
    """An MCP server over streamable HTTP; each run of a response has a session of its own."""

    names: Sequence[str] = ()

    def __init__(
        self, tool: JsonObject, place: str, allowed: Sequence[str], operator: OperatorEnvironment
    ) -> None:
        refuse(tool, place, _REFUSED)
        if tool.get("require_approval") != "never":
            message = "must be never: the server's tools are run without asking"
            raise InvalidRequest(message, param=f"{place}.require_approval")
        self.label = text_field(tool, "server_label", place)
        address = server_url(tool, place, allowed)
        self._config = McpConfig(url=address, timeout=60)
        self._allowed = allowed_tools(tool.get("allowed_tools"), f"{place}.allowed_tools")
        self._endpoint = plain_endpoint(address, operator)

    async def open(self, stack: AsyncExitStack) -> Opened:
        """Begin a session and ask for the tools; raises `BadGateway`."""
        server = await stack.enter_async_context(McpServer(self._endpoint, self._config))

        async def call(name: str, arguments: JsonObject) -> ToolResult:
            return await call_tool(server, name, arguments)

        return await opened_server(self.label, server.listed, call, self._allowed)


async def opened_server(
    label: str,
    listed: Callable[[], Awaitable[Sequence[JsonObject]]],
    call: Callable[[str, JsonObject], Awaitable[ToolResult]],
    allowed: frozenset[str] | None,
) -> Opened:
    """The first tools of a server that tells them; raises `BadGateway`."""
    try:
        tools = (await listed())[:MAX_TOOLS]
    except ToolError as error:
        message = f"the server {label!r} does not list its tools: {error.error}"
        raise BadGateway(message, code="mcp_list_tools_failed") from error
    kept = [_described(tool) for tool in tools if allowed is None or tool["name"] in allowed]
    item = {
        "id": f"mcpl_{secrets.token_hex(12)}",
        "type": "mcp_list_tools",
        "server_label": label,
        "tools": kept,
        "error": None,
    }
    return Opened([ServerFunction(label, each, call) for each in kept], [item])


class ServerFunction:
    """One tool of a server; its calls are shown as OpenAI shows those of MCP."""

    def __init__(
        self,
        label: str,
        described: JsonObject,
        call: Callable[[str, JsonObject], Awaitable[ToolResult]],
    ) -> None:
        name = described["name"]
        self.schema = function_tool(name, described["description"], described["input_schema"])
        self._label = label
        self._call = call

    def begun(self, identity: str, call: ServerCall) -> Shown:
        """See `Tool`."""
        arguments = call.arguments or "{}"
        events: tuple[Unnumbered, ...] = (
            ("response.mcp_call.in_progress", {}),
            ("response.mcp_call_arguments.delta", {"delta": arguments}),
            ("response.mcp_call_arguments.done", {"arguments": arguments}),
        )
        return Shown({**self._item(identity, call), "status": "in_progress"}, events)

    async def run(self, identity: str, call: ServerCall) -> Reply:
        """See `Tool`."""
        item, arguments = self._item(identity, call), arguments_of(call)
        if arguments is None:
            return _failed(item, "Error: the arguments are not a JSON object.")
        try:
            result = await self._call(call.name, arguments)
        except ToolError as error:
            return _failed(item, error.text)
        text = result.text[:LONGEST_OUTPUT]
        shown = {**item, "output": text, "status": "completed"}
        return Reply(text, Shown(shown, (("response.mcp_call.completed", {}),)))

    def _item(self, identity: str, call: ServerCall) -> JsonObject:
        return {
            "id": f"mcp_{identity}",
            "type": "mcp_call",
            "server_label": self._label,
            "name": call.name,
            "arguments": call.arguments or "{}",
            "output": None,
            "error": None,
            "approval_request_id": None,
        }


def _failed(item: JsonObject, text: str) -> Reply:
    content = [{"type": "text", "text": text}]
    error = {"type": "mcp_tool_execution_error", "content": content}
    shown = {**item, "error": error, "status": "failed"}
    return Reply(text, Shown(shown, (("response.mcp_call.failed", {}),)))


def allowed_tools(given: Any, place: str) -> frozenset[str] | None:
    """The names in ``allowed_tools``, None for all; raises `InvalidRequest`."""
    names = given.get("tool_names") if isinstance(given, dict) else given
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise wrong(place, given, "a list of names")
    return frozenset(names)


def server_url(tool: JsonObject, place: str, allowed: Sequence[str]) -> AnyHttpUrl:
    """The address of a server that the operator allows.

    Raises `InvalidRequest` and `PermissionDenied`.
    """
    param = f"{place}.server_url"
    try:
        url = _URL.validate_python(text_field(tool, "server_url", place))
    except ValidationError:
        raise InvalidRequest("is not a URL", param=param) from None
    if origin_of(url) not in allowed:
        message = f"{origin_of(url)} is not among the operator's TEMPER_ALLOWED_ENDPOINTS"
        raise PermissionDenied(message, param=param)
    return url


def _described(tool: JsonObject) -> JsonObject:
    return {
        "name": tool["name"],
        "description": tool.get("description"),
        "input_schema": tool.get("inputSchema")
        or tool.get("input_schema")
        or {"type": "object", "properties": {}},
        "annotations": tool.get("annotations"),
    }
