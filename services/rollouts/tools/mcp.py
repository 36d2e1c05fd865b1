"""A session with an MCP server over streamable HTTP.

The protocol: https://modelcontextprotocol.io/specification/2025-06-18/basic/transports
"""

import asyncio
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from services.contracts.base import JsonObject
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import FailureKind, Retries, ServiceFailed
from services.parsing.foreign_json import parse_foreign
from services.rollouts.tools.configuration import McpConfig
from services.rollouts.tools.endpoints import ToolEndpoint
from services.rollouts.tools.mcp_calls import (
    INITIALIZED,
    PROTOCOL,
    McpError,
    introduction,
    listed_tools,
)
from services.rollouts.tools.user_tools import UNTOUCHED

SESSION = "mcp-session-id"
SESSION_GONE = 404
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

    async def listed(self) -> Sequence[JsonObject]:
        """See `ToolServer`."""
        return await listed_tools(self)

    async def _begin(self) -> None:
        async with self._beginning:
            if self._is_begun:
                return
            await self._ask("initialize", introduction())
            self._is_begun = True
            await self.post(INITIALIZED, lambda _: None)

    async def _ask(self, method: str, params: JsonObject) -> tuple[JsonObject, int]:
        number = next(self._numbers)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        answer = await self.post(request, lambda body: _answer_to(number, body))
        error = answer.value.get("error")
        if isinstance(error, dict):
            raise McpError(error.get("code"), str(error.get("message")), answer.attempts)
        return dict(answer.value["result"]), answer.attempts


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
