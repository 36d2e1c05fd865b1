"""Environments of OpenEnv: a session for each rollout, whose steps are the model's calls.

An environment of MCP's kind lists its tools, and a call is the action ``call_tool``; another one
takes the arguments of its only tool as the action.
"""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

import aiohttp

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.rollouts.trajectories import CallOutcome
from services.inference.clients.retries import Retries
from services.rollouts.tools.base import (
    SHOWN_CHARACTERS,
    EpisodeStart,
    ToolError,
    ToolResult,
    bad_arguments,
)
from services.rollouts.tools.configuration import OpenEnvConfig
from services.rollouts.tools.endpoints import ToolEndpoint
from services.rollouts.tools.mcp_calls import McpError, check_listed, refused, tool_result, tools_in
from services.rollouts.tools.openenv_wire import (
    EnvironmentAnsweredError,
    EnvironmentSocket,
    connected,
    failed,
    lost,
    open_http,
)

UNREACHED_SECONDS = 60.0
"""How long a rollout waits for a server that cannot be reached."""
_UNREACHED = (InfrastructureCause.REFUSED, InfrastructureCause.RESET)
_INFRASTRUCTURE = {
    "timeout": InfrastructureCause.TIMED_OUT,
    "transport_error": InfrastructureCause.SERVICE_ERROR,
}
"""Errors of a tool's call that are not the call's fault, by the name that OpenEnv gives them."""


class OpenEnvServer:
    """The server of an environment; see `SessionServer`. ``action`` is the name of the only tool of
    an environment that lists none. Use it as an async context manager."""

    def __init__(self, target: ToolEndpoint, config: OpenEnvConfig, action: str | None) -> None:
        self._target = target
        self._config = config
        self._action = action
        self._places = asyncio.Semaphore(config.max_in_flight)
        self._http: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        self._http = open_http(self._target, self._config.max_in_flight)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def listed(self) -> Sequence[JsonObject]:
        """See `ToolServer`."""
        async with self._place(), self._begun(EpisodeStart(), reset=False) as session:
            return await session.listed()

    async def probe(self, name: str) -> None:
        """See `SessionServer`."""
        if self._action is None:
            check_listed(await self.listed(), name)
            return
        async with self._place(), self._begun(EpisodeStart(), reset=False) as session:
            await session.state()

    @asynccontextmanager
    async def session(self, start: EpisodeStart) -> AsyncIterator["OpenEnvSession"]:
        """See `SessionServer`. Entering waits for a place among ours, and then for one at the
        server."""
        async with self._place(), self._begun(start, reset=True) as session:
            yield session

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        seconds = self._config.session_timeout
        try:
            async with asyncio.timeout(seconds):
                await self._places.acquire()
        except TimeoutError:
            message = f"no session of the environment ended within {seconds:g} s"
            raise lost(message, InfrastructureCause.OVERLOADED) from None
        try:
            yield
        finally:
            self._places.release()

    @asynccontextmanager
    async def _begun(self, start: EpisodeStart, *, reset: bool) -> AsyncIterator["OpenEnvSession"]:
        """A session as soon as the server has room for it; one that is to be reset may also wait
        for a server that is started again."""
        waits = Retries(attempts=1, deadline_seconds=0.0, first_wait_seconds=0.25)
        clock = asyncio.get_running_loop().time
        begun, attempt = clock(), 0
        patience = dict.fromkeys(_UNREACHED, UNREACHED_SECONDS if reset else 0.0)
        patience[InfrastructureCause.OVERLOADED] = self._config.capacity_timeout
        async with AsyncExitStack() as stack:
            while True:
                try:
                    session = await self._opened(stack, start if reset else None)
                    break
                except ToolError as fault:
                    await stack.aclose()
                    attempt += 1
                    wait = waits.wait(attempt)
                    longest = 0.0 if fault.cause is None else patience.get(fault.cause, 0.0)
                    if clock() - begun + wait > longest:
                        raise
                await asyncio.sleep(wait)
            yield session

    async def _opened(self, stack: AsyncExitStack, start: EpisodeStart | None) -> "OpenEnvSession":
        """A new session, reset for a rollout if there is one; raises `ToolError`."""
        connection = connected(self._http, self._target, self._config.timeout)
        socket = await stack.enter_async_context(connection)
        session = OpenEnvSession(socket, self._target.url, self._config, self._action)
        try:
            if start is None:
                await session.state()
            else:
                await session.reset(start)
        except EnvironmentAnsweredError as error:
            raise failed(error) from error
        return session


class OpenEnvSession:
    """One episode; see `ToolSession`."""

    def __init__(
        self, socket: EnvironmentSocket, url: str, config: OpenEnvConfig, action: str | None
    ) -> None:
        self.opening: str | None = None
        self.environment = EnvironmentRecord(source=url)
        self._socket = socket
        self._config = config
        self._action = action
        self._turn = asyncio.Lock()
        self._ends_at = asyncio.get_running_loop().time() + config.session_timeout

    async def reset(self, start: EpisodeStart) -> None:
        """Begin the episode; raises `ToolError` and `EnvironmentAnsweredError`."""
        chosen = {
            name: start.extra[name] for name in self._config.reset_fields if name in start.extra
        }
        data = {"seed": start.seed, **self._config.reset, **chosen}
        seen = await self._socket.ask("reset", "observation", data)
        if seen.get("done") is True:
            message = "the environment's episode has ended at its reset"
            raise lost(message, InfrastructureCause.MISCONFIGURED)
        if self._config.show_reset:
            self.opening = observation_text(seen.get("observation"))

    async def state(self) -> JsonObject:
        """The environment's state; raises `ToolError` and `EnvironmentAnsweredError`."""
        return await self._socket.ask("state", "state")

    async def listed(self) -> Sequence[JsonObject]:
        """The tools of the environment; raises `ToolError`."""
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        try:
            answer = await self._socket.ask("mcp", "mcp", request)
        except EnvironmentAnsweredError as error:
            raise failed(error) from error
        error_of_list, result = answer.get("error"), answer.get("result")
        if isinstance(error_of_list, dict):
            message = f"the environment lists no tools: {error_of_list.get('message')}"
            refusal = McpError(error_of_list.get("code"), message, 1)
            raise refused(refusal) from refusal
        return tools_in(result if isinstance(result, dict) else {})

    async def call(self, name: str, arguments: JsonObject) -> ToolResult:
        """See `ToolSession`; a step of the environment."""
        action = arguments
        if self._action is None:
            action = {"type": "call_tool", "tool_name": name, "arguments": arguments}
        async with self._turn:
            if self.environment.done:
                message = "the environment has ended the rollout"
                raise ToolError(CallOutcome.DROPPED, "", message, 0)
            seen = await self._step(action)
            reward = _reward(seen.get("reward"))
            self.environment.rewards.append(reward)
            self.environment.done = seen.get("done") is True
        return _reply(seen.get("observation"))

    async def _step(self, action: JsonObject) -> JsonObject:
        left = self._ends_at - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(left):
                return await self._socket.ask("step", "observation", action)
        except TimeoutError:
            message = f"the session was open for {self._config.session_timeout:g} s"
            raise lost(message, InfrastructureCause.TIMED_OUT) from None
        except EnvironmentAnsweredError as error:
            raise failed(error) from error


def _reward(value: Any) -> float | None:
    """The reward of a step; raises `ToolError` for one that is not a finite number."""
    if value is None:
        return None
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    message = f"the environment gave the reward {str(value)[:100]}, which is not a finite number"
    raise lost(message, InfrastructureCause.UNREADABLE)


def _reply(observation: Any) -> ToolResult:
    """What the model reads of an observation; raises `ToolError` where a tool's call failed."""
    if not isinstance(observation, dict) or "tool_name" not in observation:
        return ToolResult(observation_text(observation), 1)
    error = observation.get("error")
    if isinstance(error, dict):
        kind, message = str(error.get("error_type")), str(error.get("message"))
        if kind in _INFRASTRUCTURE:
            raise lost(message, _INFRASTRUCTURE[kind])
        if kind == "invalid_args":
            raise bad_arguments(message[:SHOWN_CHARACTERS])
        raise ToolError(CallOutcome.FAILED, f"Error: {message[:SHOWN_CHARACTERS]}", message, 1)
    result = observation.get("result")
    if isinstance(result, dict) and isinstance(result.get("content"), list):
        return tool_result(result)
    return ToolResult(result if isinstance(result, str) else _json(result), 1)


def observation_text(observation: Any) -> str:
    """An observation as text: its only field that is a text, or JSON without what is empty."""
    if not isinstance(observation, dict):
        return observation if isinstance(observation, str) else _json(observation)
    shown = {key: value for key, value in observation.items() if key != "metadata"}
    kept = {key: value for key, value in shown.items() if value not in (None, "", [], {})}
    only = next(iter(kept.values()), "") if len(kept) <= 1 else None
    return only if isinstance(only, str) else _json(kept)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
