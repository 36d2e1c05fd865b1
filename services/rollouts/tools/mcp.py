"""Tools of an MCP server over streamable HTTP: JSON-RPC requests within a session.

The protocol: https://modelcontextprotocol.io/specification/2025-06-18/basic/transports
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.foreign_json import parse_foreign
from services.contracts.infrastructure import InfrastructureCause
from services.contracts.rollouts.tool_runs import HttpRun
from services.contracts.rollouts.trajectories import CallOutcome
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import FailureKind, Retries, ServiceFailed
from services.rollouts.tools.base import (
    SHOWN_CHARACTERS,
    ToolError,
    ToolResult,
    bad_arguments,
    request_failure,
    service_error,
)
from services.rollouts.tools.configuration import McpConfig
from services.rollouts.tools.endpoints import ToolEndpoint
from services.rollouts.tools.user_tools import UNTOUCHED

PROTOCOL = "2025-06-18"
SESSION = "mcp-session-id"
SESSION_GONE = 404
INVALID_PARAMS = -32602
METHOD_NOT_FOUND = -32601
CLOSE_SECONDS = 5.0


class McpServer(JsonService):
    """One session with an MCP server, begun at the first call and ended with the block.

    A session that the server has forgotten is begun again. Use it as an async context manager.
    """

    def __init__(self, target: ToolEndpoint, config: McpConfig) -> None:
        again = {FailureKind.BROKEN_OFF, FailureKind.TIMED_OUT, FailureKind.UNREADABLE}
        super().__init__(
            target.url,
            target.api_key,
            timeout=config.timeout,
            retries=Retries(
                attempts=3,
                deadline_seconds=2 * config.timeout,
                statuses=UNTOUCHED | ({500, 502, 504} if config.idempotent else set()),
                kinds=frozenset(again if config.idempotent else ()),
            ),
            connections=config.max_in_flight,
            keep_alive=config.idempotent,
            headers={"Accept": "application/json, text/event-stream"},
        )
        self._session: str | None = None
        self._is_begun = False
        self._beginning = asyncio.Lock()
        self._numbers = itertools.count(1)

    async def __aexit__(self, *_: object) -> None:
        try:
            if self._session is not None:
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self.delete()
        except (TimeoutError, ServiceFailed):
            pass  # the server ends sessions that nobody uses
        finally:
            await super().__aexit__()

    def request_headers(self) -> Mapping[str, str]:
        """The session, once the server has given one."""
        if not self._is_begun:
            return {}
        session = {} if self._session is None else {SESSION: self._session}
        return {"mcp-protocol-version": PROTOCOL, **session}

    def note_headers(self, headers: Mapping[str, str]) -> None:
        """Keep the session that the server gives."""
        self._session = headers.get(SESSION, self._session)

    async def ask(self, method: str, params: JsonObject) -> tuple[JsonObject, int]:
        """The result of a request, and how many attempts it took; raises `ServiceFailed`, and
        `McpError` for an error that the server answers."""
        await self._begin()
        session = self._session
        try:
            return await self._ask(method, params)
        except ServiceFailed as failed:
            if failed.status != SESSION_GONE or session is None:
                raise
        if self._session == session:  # another call may have begun one in the meantime
            self._is_begun, self._session = False, None
        await self._begin()
        return await self._ask(method, params)

    async def _begin(self) -> None:
        async with self._beginning:
            if self._is_begun:
                return
            client = {"name": "temper", "version": "1"}
            capabilities: JsonObject = {}
            await self._ask(
                "initialize",
                {"protocolVersion": PROTOCOL, "capabilities": capabilities, "clientInfo": client},
            )
            self._is_begun = True
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await self.post(note, lambda _: None)

    async def _ask(self, method: str, params: JsonObject) -> tuple[JsonObject, int]:
        number = next(self._numbers)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        answer = await self.post(request, lambda body: _answer_to(number, body))
        error = answer.value.get("error")
        if isinstance(error, dict):
            raise McpError(error.get("code"), str(error.get("message")), answer.attempts)
        return dict(answer.value["result"]), answer.attempts


class McpError(Exception):
    """The error that a server answered a request with."""

    def __init__(self, code: Any, message: str, attempts: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.attempts = attempts


class McpTool:
    """One tool of a server; the model reads the text of its answer."""

    def __init__(self, server: McpServer, name: str, *, idempotent: bool) -> None:
        self._server = server
        self._name = name
        self.idempotent = idempotent

    async def run(self, arguments: JsonObject) -> ToolResult:
        """Call the tool; raises `ToolError`."""
        try:
            params = {"name": self._name, "arguments": arguments}
            result, attempts = await self._server.ask("tools/call", params)
        except ServiceFailed as failed:
            raise service_error(failed, HttpRun(failure=request_failure(failed))) from failed
        except McpError as error:
            raise _refused(error) from error
        text = "\n".join(_texts(result))
        if result.get("isError") is True:  # the tool ran, and says what was wrong with the call
            raise ToolError(CallOutcome.FAILED, f"Error: {text[:SHOWN_CHARACTERS]}", text, attempts)
        return ToolResult(text, attempts)

    async def probe(self) -> None:
        """Find the tool in the server's list; raises `ToolError`."""
        try:
            known = [name async for name in self._names()]
        except ServiceFailed as failed:
            raise service_error(failed) from failed
        except McpError as error:
            raise _refused(error) from error
        if self._name not in known:
            message = f"the MCP server has no tool {self._name!r}; it has {', '.join(known)}"
            cause = InfrastructureCause.MISCONFIGURED
            raise ToolError(CallOutcome.FAILED, "Error: no such tool.", message, 1, None, cause)

    async def _names(self) -> AsyncIterator[str]:
        cursor: Any = None
        while True:
            page, _ = await self._server.ask("tools/list", {"cursor": cursor} if cursor else {})
            for tool in page.get("tools") or ():
                if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                    yield tool["name"]
            cursor = page.get("nextCursor")
            if not cursor:
                return


def _refused(error: McpError) -> ToolError:
    """Wrong arguments are the model's fault; other errors are the server's own."""
    if error.code == INVALID_PARAMS:
        return bad_arguments(error.message[:SHOWN_CHARACTERS])
    is_missing = error.code == METHOD_NOT_FOUND
    cause = InfrastructureCause.MISCONFIGURED if is_missing else InfrastructureCause.SERVICE_ERROR
    return ToolError(
        CallOutcome.FAILED, "Error: the tool failed.", error.message, error.attempts, None, cause
    )


def _answer_to(number: int, body: bytes) -> JsonObject:
    """The response to a request in a body of JSON, or of server-sent events among which other
    messages may come before it; raises `ValueError`."""
    for message in _messages(body):
        if not isinstance(message, dict) or message.get("id") != number:
            continue
        if isinstance(message.get("result"), dict) or isinstance(message.get("error"), dict):
            return message
        raise ValueError("the response has neither a result nor an error")
    raise ValueError("no message answers the request")


def _messages(body: bytes) -> Iterator[Any]:
    if body.lstrip()[:1] in (b"{", b"["):
        value = parse_foreign(body)
        yield from value if isinstance(value, list) else [value]
        return
    for event in body.replace(b"\r\n", b"\n").split(b"\n\n"):
        lines = [line[5:].removeprefix(b" ") for line in event.split(b"\n") if line[:5] == b"data:"]
        if lines:
            yield parse_foreign(b"\n".join(lines))


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
