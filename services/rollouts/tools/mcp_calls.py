"""Requests to an MCP server, whatever carries them: its tools, their calls, and its errors.

The protocol: https://modelcontextprotocol.io/specification/2025-06-18
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.tool_runs import HttpRun
from services.contracts.rollouts.trajectories import CallOutcome
from services.inference.clients.retries import ServiceFailed
from services.rollouts.tools.base import (
    SHOWN_CHARACTERS,
    ToolError,
    ToolResult,
    bad_arguments,
    request_failure,
    service_error,
)

PROTOCOL = "2025-06-18"
INITIALIZED: JsonObject = {"jsonrpc": "2.0", "method": "notifications/initialized"}
"""The notification after which requests are answered."""
INVALID_PARAMS = -32602
METHOD_NOT_FOUND = -32601
MOST_PAGES = 100
"""A server that lists more is one that never comes to an end."""


def introduction() -> JsonObject:
    """The parameters of the first request."""
    capabilities: JsonObject = {}
    client = {"name": "temper", "version": "1"}
    return {"protocolVersion": PROTOCOL, "capabilities": capabilities, "clientInfo": client}


class McpPeer(Protocol):
    """A server that answers requests."""

    async def ask(self, method: str, params: JsonObject) -> tuple[JsonObject, int]:
        """The result of a request, and how many attempts it took.

        Raises `ServiceFailed`, `ToolError`, and `McpError` for an error that the server answers.
        """
        ...


class McpError(Exception):
    """The error that a server answered a request with."""

    def __init__(self, code: Any, message: str, attempts: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.attempts = attempts


class McpTool:
    """One tool of a server; the model reads the text of its answer."""

    def __init__(self, server: McpPeer, name: str, *, idempotent: bool) -> None:
        self._server = server
        self._name = name
        self.idempotent = idempotent

    async def run(self, arguments: JsonObject) -> ToolResult:
        """Call the tool; raises `ToolError`."""
        return await call_tool(self._server, self._name, arguments)

    async def probe(self) -> None:
        """Find the tool in the server's list; raises `ToolError`."""
        check_listed(await listed_tools(self._server), self._name)


async def call_tool(server: McpPeer, name: str, arguments: JsonObject) -> ToolResult:
    """Call a tool of a server; raises `ToolError`."""
    try:
        params = {"name": name, "arguments": arguments}
        result, attempts = await server.ask("tools/call", params)
    except ServiceFailed as failed:
        raise service_error(failed, HttpRun(failure=request_failure(failed))) from failed
    except McpError as error:
        raise refused(error) from error
    return tool_result(result, attempts)


def tool_result(result: JsonObject, attempts: int = 1) -> ToolResult:
    """What a tool answered; raises `ToolError` if it says that the call failed."""
    text = "\n".join(_texts(result))
    if result.get("isError") is True or result.get("is_error") is True:
        # The tool ran, and says what was wrong with the call.
        raise ToolError(CallOutcome.FAILED, f"Error: {text[:SHOWN_CHARACTERS]}", text, attempts)
    return ToolResult(text, attempts)


async def listed_tools(server: McpPeer) -> Sequence[JsonObject]:
    """The tools of a server, as it describes them; raises `ToolError`."""
    try:
        return await _all_pages(server)
    except ServiceFailed as failed:
        raise service_error(failed) from failed
    except McpError as error:
        raise refused(error) from error


def check_listed(tools: Sequence[JsonObject], name: str) -> None:
    """Raise `ToolError` unless a server's list has the tool."""
    known = [tool["name"] for tool in tools]
    if name not in known:
        message = f"the server has no tool {name!r}; it has {', '.join(known)}"
        cause = InfrastructureCause.MISCONFIGURED
        raise ToolError(CallOutcome.FAILED, "Error: no such tool.", message, 1, None, cause)


async def _all_pages(server: McpPeer) -> Sequence[JsonObject]:
    found: list[JsonObject] = []
    cursor: Any = None
    for _ in range(MOST_PAGES):
        page, _ = await server.ask("tools/list", {"cursor": cursor} if cursor else {})
        found += tools_in(page)
        cursor = page.get("nextCursor")
        if not cursor:
            return found
    message = f"the server's list of tools has more than {MOST_PAGES} pages"
    cause = InfrastructureCause.UNREADABLE
    raise ToolError(CallOutcome.FAILED, "Error: the tool failed.", message, 1, None, cause)


def tools_in(page: JsonObject) -> list[JsonObject]:
    """The tools of one answer to tools/list."""
    tools = page.get("tools")
    return [
        tool
        for tool in (tools if isinstance(tools, list) else ())
        if isinstance(tool, dict) and isinstance(tool.get("name"), str)
    ]


def schema_of(tool: JsonObject) -> JsonObject:
    """The schema that a model reads of a listed tool, not yet checked."""
    described = tool.get("inputSchema") or tool.get("input_schema")
    return {
        "type": "function",
        "function": {
            "name": tool["name"],
            "description": str(tool.get("description") or ""),
            "parameters": described or {"type": "object", "properties": {}},
        },
    }


def refused(error: McpError) -> ToolError:
    """Wrong arguments are the model's fault; other errors are the server's own."""
    if error.code == INVALID_PARAMS:
        return bad_arguments(error.message[:SHOWN_CHARACTERS])
    is_missing = error.code == METHOD_NOT_FOUND
    cause = InfrastructureCause.MISCONFIGURED if is_missing else InfrastructureCause.SERVICE_ERROR
    return ToolError(
        CallOutcome.FAILED, "Error: the tool failed.", error.message, error.attempts, None, cause
    )


def _texts(result: JsonObject) -> Iterator[str]:
    """The texts of an answer's content; structured content stands in for content that is absent."""
    blocks = result.get("content")
    for block in blocks if isinstance(blocks, list) else ():
        if not isinstance(block, dict):
            continue
        resource = block.get("resource")
        text = block.get("text")
        if text is None and isinstance(resource, dict):
            text = resource.get("text")
        yield text if isinstance(text, str) else f"[{block.get('type')}: not shown]"
    if not blocks and result.get("structuredContent") is not None:
        yield json.dumps(result["structuredContent"], ensure_ascii=False)
