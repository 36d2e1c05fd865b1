"""Starts agents: behind a URL, as programs, or as functions in processes of their own."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, PermissionDenied, TemperError
from services.contracts.failures import InfrastructureCause
from services.contracts.origins import origin_of
from services.contracts.rollouts.agents import Agent, CallableAgent, CommandAgent
from services.core.operator_environment import OperatorEnvironment
from services.core.process.worker_pool import (
    FunctionFailed,
    FunctionPool,
    FunctionTimedOut,
    check_function_allowed,
)
from services.inference.causes import cause_of
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import FailureKind, Retries, ServiceFailed
from services.parsing.foreign_json import parse_foreign
from services.rollouts.agents.command import RunningCommand
from services.rollouts.agents.failed import AgentFailed


class RunningAgent(Protocol):
    """An agent that plays sessions, many at a time."""

    async def play(self, session: JsonObject) -> JsonObject:
        """Play a session to its end and return what the agent says of it.

        Raises `AgentFailed`.
        """
        ...


def check_agent(
    agent: Agent,
    allowed_origins: Collection[str],
    allowed_callables: Collection[str],
    agent_commands: Mapping[str, Sequence[str]],
    param: str = "agent",
) -> None:
    """Raise `InvalidRequest` or `PermissionDenied` for an agent that the operator's settings
    forbid. Contacts and imports nothing."""
    if isinstance(agent, CallableAgent):
        check_function_allowed(agent.function, allowed_callables, f"{param}.function")
        return
    if isinstance(agent, CommandAgent):
        _allowed_command(agent, agent_commands, param)
        return
    url = agent.url
    if url.username or url.password or url.fragment:
        raise InvalidRequest(
            "must be a plain URL: its key is set by the operator", param=f"{param}.url"
        )
    if origin_of(url) not in allowed_origins:
        raise PermissionDenied(
            f"{origin_of(url)} is not among the operator's TEMPER_ALLOWED_ENDPOINTS",
            param=f"{param}.url",
        )


def _allowed_command(
    agent: CommandAgent, commands: Mapping[str, Sequence[str]], param: str
) -> Sequence[str]:
    command = commands.get(agent.command)
    if command is None:
        raise PermissionDenied(
            f"{agent.command!r} is not among the operator's TEMPER_AGENT_COMMANDS",
            param=f"{param}.command",
        )
    return command


@asynccontextmanager
async def open_agent(
    agent: Agent, environment: OperatorEnvironment, concurrency: int
) -> AsyncIterator[RunningAgent]:
    """The agent, whose connections and processes live as long as the block."""
    if isinstance(agent, CallableAgent):
        check_function_allowed(agent.function, environment.allowed_callables, "agent.function")
        pool = FunctionPool(agent.function, agent.processes, environment.callables_folder)
        async with pool:
            yield _Function(pool, agent)
        return
    if isinstance(agent, CommandAgent):
        command = _allowed_command(agent, environment.agent_commands, "agent")
        async with RunningCommand(command, agent) as running:
            yield running
        return
    service = JsonService(
        str(agent.url),
        environment.key_of(origin_of(agent.url)),
        timeout=agent.timeout,
        # A session that has begun is another one the second time.
        retries=Retries(
            attempts=3,
            deadline_seconds=2 * agent.timeout,
            statuses=frozenset({429, 503}),
            kinds=frozenset({FailureKind.UNSENT}),
        ),
        connections=concurrency,
        keep_alive=False,
    )
    async with service:
        yield _Service(service)


class _Service:
    def __init__(self, service: JsonService) -> None:
        self._service = service

    async def play(self, session: JsonObject) -> JsonObject:
        """See `RunningAgent`."""
        try:
            return (await self._service.post(session, _object)).value
        except ServiceFailed as failed:
            is_late = failed.kind is FailureKind.TIMED_OUT
            raise AgentFailed(failed.message, None if is_late else _cause(failed)) from failed


class _Function:
    def __init__(self, pool: FunctionPool, agent: CallableAgent) -> None:
        self._pool = pool
        self._agent = agent

    async def play(self, session: JsonObject) -> JsonObject:
        """See `RunningAgent`."""
        arguments = {**self._agent.arguments, **session}
        try:
            return _said(await self._pool.call(arguments, self._agent.timeout))
        except FunctionTimedOut as late:
            raise AgentFailed(late.message, None) from late
        except FunctionFailed as failed:
            raise AgentFailed(failed.message, _cause(failed)) from failed


def _cause(error: TemperError) -> InfrastructureCause:
    """An agent that breaks is the infrastructure's failure, whatever broke it."""
    return cause_of(error) or InfrastructureCause.SERVICE_ERROR


def _object(body: bytes) -> JsonObject:
    return _said(parse_foreign(body) if body.strip() else None)


def _said(value: Any) -> JsonObject:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("the agent's answer is not a JSON object")
    return value
