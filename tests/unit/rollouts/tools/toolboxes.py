"""Toolboxes and single tool calls for one test."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from services.contracts.base import JsonObject
from services.contracts.rollouts.multi_turn import Tool
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.tools import Toolbox, ToolReply, open_toolbox
from tests.unit.inference.scripted_server import ScriptedServer, running_server

Result = TypeVar("Result")


def with_tools(
    tools: Sequence[Tool],
    work: Callable[[Toolbox], Awaitable[Result]],
    environment: OperatorEnvironment | None = None,
) -> Result:
    """Open the tools, which repeat no call, and return the result of ``work``."""

    async def run() -> Result:
        allowed = environment or OperatorEnvironment()
        async with open_toolbox(tools, allowed, repeat_seconds=0.0) as toolbox:
            return await work(toolbox)

    return asyncio.run(run())


def call(
    tool: Tool,
    arguments: JsonObject | None,
    environment: OperatorEnvironment | None = None,
    name: str | None = None,
) -> ToolReply:
    """The reply of one call of one tool."""

    async def ask(toolbox: Toolbox) -> ToolReply:
        own = str(toolbox.schemas[0]["function"]["name"])
        return await toolbox.call(name if name is not None else own, arguments)

    return with_tools([tool], ask, environment)


def function(name: str, **properties: Any) -> JsonObject:
    """A function schema whose properties are all required."""
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {
        "type": "function",
        "function": {"name": name, "description": "", "parameters": parameters},
    }


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with running_server() as scripted:
        yield scripted
