"""MCP servers that are programs: each rollout has one of its own, in an empty folder.

Messages are lines of JSON on standard input and output:
https://modelcontextprotocol.io/specification/2025-06-18/basic/transports#stdio
"""

import asyncio
import itertools
import json
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.process.runtimes import MARKER, foreign_environment
from services.core.process.supervised import kill_tree, nested_tree_name
from services.parsing.foreign_json import parse_foreign
from services.rollouts.tools.base import EpisodeStart, ToolError, ToolResult
from services.rollouts.tools.mcp_calls import (
    INITIALIZED,
    METHOD_NOT_FOUND,
    McpError,
    call_tool,
    check_listed,
    introduction,
    listed_tools,
    refused,
)

LARGEST_LINE = 16 << 20
"""Bytes of one message of a server."""
MOST_MESSAGES = 10_000
"""Messages that a server may send before it answers."""
PLACE_SECONDS = 3600.0
"""Longest wait for the end of another rollout's server."""
TAIL_BYTES = 500
ERRORS = "errors.log"


class McpPrograms:
    """Starts the server for each rollout that calls it; see `SessionServer`."""

    def __init__(self, command: Sequence[str], timeout: float, programs: int) -> None:
        self._command = command
        self._timeout = timeout
        self._places = asyncio.Semaphore(programs)

    async def listed(self) -> Sequence[JsonObject]:
        """See `ToolServer`."""
        async with self._running() as program:
            return await listed_tools(program)

    async def probe(self, name: str) -> None:
        """See `SessionServer`."""
        check_listed(await self.listed(), name)

    @asynccontextmanager
    async def session(self, start: EpisodeStart) -> AsyncIterator["McpProgram"]:
        """See `SessionServer`; the program starts at the first call."""
        del start  # the protocol has no place for it
        async with self._running() as program:
            yield program

    @asynccontextmanager
    async def _running(self) -> AsyncIterator["McpProgram"]:
        with TemporaryDirectory(prefix="temper-mcp-", ignore_cleanup_errors=True) as name:
            program = McpProgram(self._command, self._timeout, Path(name), self._places)
            try:
                yield program
            finally:
                # Nothing that cancels the rollout may leave the program behind.
                await asyncio.shield(asyncio.ensure_future(program.end()))


class McpProgram:
    """One running server; answers one request after the other."""

    opening: str | None = None
    environment: EnvironmentRecord | None = None

    def __init__(
        self, command: Sequence[str], timeout: float, folder: Path, places: asyncio.Semaphore
    ) -> None:
        self._places = places
        self._has_place = False
        self._command = command
        self._timeout = timeout
        self._errors = folder / ERRORS
        self._folder = folder / "work"
        self._tree = nested_tree_name(os.environ.get(MARKER))
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._numbers = itertools.count(1)
        self._has_ended = False

    async def call(self, name: str, arguments: JsonObject) -> ToolResult:
        """See `ToolSession`."""
        return await call_tool(self, name, arguments)

    async def ask(self, method: str, params: JsonObject) -> tuple[JsonObject, int]:
        """See `McpPeer`. A server that does not answer in time is ended."""
        async with self._turn:
            await self._take_place()
            try:
                async with asyncio.timeout(self._timeout):
                    process = self._process or await self._started()
                    return await self._ask(process, method, params), 1
            except TimeoutError:
                await self.end()
                message = f"{self._name} did not answer within {self._timeout:g} s"
                raise _lost(message, InfrastructureCause.TIMED_OUT) from None
            except (OSError, EOFError) as error:
                await self.end()
                message = f"{self._name} ended before it answered: {self._tail()}"
                raise _lost(message, InfrastructureCause.KILLED) from error
            except ValueError as error:
                await self.end()
                message = f"{self._name} gave a message that cannot be read: {error}"
                raise _lost(message, InfrastructureCause.UNREADABLE) from error

    async def end(self) -> None:
        """End the server and everything that it has started."""
        process, self._process, self._has_ended = self._process, None, True
        if process is not None:
            await asyncio.to_thread(kill_tree, self._tree, process.pid)
            await process.wait()
        if self._has_place:
            self._has_place = False
            self._places.release()

    async def _take_place(self) -> None:
        """Wait until fewer servers run than may run at once."""
        if self._has_place or self._has_ended:
            return
        try:
            async with asyncio.timeout(PLACE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            message = f"no MCP server of another rollout ended within {PLACE_SECONDS:g} s"
            raise _lost(message, InfrastructureCause.OVERLOADED) from None
        self._has_place = True

    @property
    def _name(self) -> str:
        return f"the MCP server {Path(self._command[0]).name}"

    async def _started(self) -> Process:
        if self._has_ended:
            raise EOFError
        self._folder.mkdir()
        errors = os.open(self._errors, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                cwd=self._folder,
                env={**foreign_environment(self._folder), MARKER: self._tree},
                limit=LARGEST_LINE,
                start_new_session=True,
            )
        except OSError as error:
            message = f"{self._name} could not be started: {error}"
            raise _lost(message, InfrastructureCause.NOT_STARTED) from error
        finally:
            os.close(errors)
        self._process = process
        try:
            await self._ask(process, "initialize", introduction())
        except McpError as error:
            await self.end()
            raise refused(error) from error
        await _send(process, INITIALIZED)
        return process

    async def _ask(self, process: Process, method: str, params: JsonObject) -> JsonObject:
        number = next(self._numbers)
        await _send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        for _ in range(MOST_MESSAGES):
            message = await _received(process)
            if "method" in message:
                await _decline(process, message)
            elif message.get("id") == number:
                return _result_of(message)
        raise ValueError(f"{MOST_MESSAGES} messages and no answer among them")

    def _tail(self) -> str:
        with suppress(OSError), open(self._errors, "rb") as file:
            file.seek(max(0, self._errors.stat().st_size - TAIL_BYTES))
            return file.read(TAIL_BYTES).decode(errors="replace").strip() or "it printed nothing"
        return "it printed nothing"


async def _send(process: Process, message: JsonObject) -> None:
    assert process.stdin is not None  # noqa: S101 - a pipe
    process.stdin.write(json.dumps(message).encode() + b"\n")
    await process.stdin.drain()


async def _received(process: Process) -> JsonObject:
    assert process.stdout is not None  # noqa: S101 - a pipe
    line = await process.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    value: Any = parse_foreign(line)
    if not isinstance(value, dict):
        raise ValueError("a message is not a JSON object")
    return value


async def _decline(process: Process, message: JsonObject) -> None:
    """Answer what a server asks of its client: nothing is offered, but it may ask for a sign of
    life. Notifications have no answer."""
    if "id" not in message:
        return
    said: JsonObject = {"error": {"code": METHOD_NOT_FOUND, "message": "not offered"}}
    if message["method"] == "ping":
        said = {"result": {}}
    await _send(process, {"jsonrpc": "2.0", "id": message["id"], **said})


def _result_of(message: JsonObject) -> JsonObject:
    error = message.get("error")
    if isinstance(error, dict):
        raise McpError(error.get("code"), str(error.get("message")), 1)
    result = message.get("result")
    if not isinstance(result, dict):
        raise ValueError("an answer has neither a result nor an error")
    return result


def _lost(message: str, cause: InfrastructureCause) -> ToolError:
    is_late = cause is InfrastructureCause.TIMED_OUT
    outcome = CallOutcome.TIMED_OUT if is_late else CallOutcome.FAILED
    text = "Error: the tool did not answer in time." if is_late else "Error: the tool failed."
    return ToolError(outcome, text, message, 1, None, cause)
