"""Tools of an MCP server: the protocol's own server, and one that misbehaves."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.contracts.base import JsonObject
from services.contracts.errors import PermissionDenied
from services.contracts.failures import InfrastructureCause as Cause
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.tools import Toolbox, ToolReply, open_toolbox
from services.rollouts.tools.endpoints import check_tools
from services.rollouts.tools.health import check_tools_respond
from tests.support.processes import running_service
from tests.unit.inference.scripted_server import (
    Behavior,
    ScriptedServer,
    answer,
    break_off,
    hang,
    reset,
)
from tests.unit.rollouts.tools.toolboxes import call, function


def mcp_tool(url: str, name: str = "add", **config: Any) -> Tool:
    numbers = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    return Tool(
        class_name="mcp", config={"url": url, **config}, tool_schema=function(name, **numbers)
    )


@contextmanager
def adding_server(folder: Path, *arguments: str) -> Iterator[str]:
    """The published server with a tool of its own; yields its address."""
    module = "tests.support.programs.mcp_server"
    with running_service(module, {}, folder / "mcp.log", arguments=arguments) as (_, url):
        yield url


@pytest.mark.parametrize("arguments", [(), ("--json",)], ids=["events", "json"])
def test_a_tool_of_the_published_server_answers(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    async def work(url: str) -> tuple[list[ToolReply], str | None, str | None]:
        tools = [mcp_tool(url), mcp_tool(url, "missing")]
        async with open_toolbox(tools, OperatorEnvironment()) as toolbox:
            found, missing = await toolbox.probe("add"), await toolbox.probe("missing")
            return await asked(toolbox), found, missing

    async def asked(toolbox: Toolbox) -> list[ToolReply]:
        calls = [{"a": 2, "b": 3}, {"a": -1, "b": 3}, {"a": 1}, {"a": 20, "b": 3}]
        return list(await asyncio.gather(*(toolbox.call("add", each) for each in calls)))

    with adding_server(tmp_path, *arguments) as url:
        (right, own, wrong, again), found, missing = asyncio.run(work(f"{url}/mcp"))

    assert (right.text, right.outcome, again.text) == ("5", CallOutcome.ANSWERED, "23")
    assert (own.outcome, own.cause) == (CallOutcome.FAILED, None)
    assert "a is negative" in own.text
    assert (wrong.outcome is CallOutcome.ANSWERED, wrong.cause) == (False, None)
    assert found is None
    assert missing is not None
    assert "no tool 'missing'; it has add" in missing


def test_a_server_tells_the_tools_that_no_schema_declares(tmp_path: Path) -> None:
    async def work(url: str) -> tuple[list[JsonObject], ToolReply, ToolReply]:
        tool = Tool(class_name="mcp", config={"url": url})
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            await check_tools_respond([tool], toolbox)
            right = await toolbox.call("add", {"a": 2, "b": 3})
            return list(toolbox.schemas), right, await toolbox.call("add", {"a": "two"})

    with adding_server(tmp_path) as url:
        (schema,), right, wrong = asyncio.run(work(f"{url}/mcp"))

    assert schema["function"]["name"] == "add"
    assert set(schema["function"]["parameters"]["properties"]) == {"a", "b"}
    assert right.text == "5"
    assert (wrong.outcome, wrong.attempts) == (CallOutcome.INVALID_ARGUMENTS, 0)


def test_a_session_ends_with_the_toolbox(tmp_path: Path) -> None:
    async def work(url: str) -> int:
        async with open_toolbox([mcp_tool(f"{url}/mcp")], OperatorEnvironment()) as toolbox:
            await toolbox.call("add", {"a": 1, "b": 2})
            return sessions(url)

    def sessions(url: str) -> int:
        return int(httpx.get(f"{url}/sessions").json())

    with adding_server(tmp_path) as url:
        assert (asyncio.run(work(url)), sessions(url)) == (1, 0)


def answered(**message: Any) -> Behavior:
    return answer(200, json.dumps({"jsonrpc": "2.0", **message}).encode())


BEGUN = [answered(id=1, result={}), answer(202, b"")]


@pytest.mark.parametrize(
    ("behavior", "cause"),
    [
        (reset, Cause.RESET),
        (break_off, Cause.RESET),
        (hang, Cause.TIMED_OUT),
        (answer(503, body=b"", retry_after="0"), Cause.OVERLOADED),
        (answer(500), Cause.SERVER_ERROR),
        (answer(404), Cause.MISCONFIGURED),
        (answered(id=2, error={"code": -32603, "message": "internal"}), Cause.SERVICE_ERROR),
        (answered(id=2, error={"code": -32601, "message": "no such"}), Cause.MISCONFIGURED),
        (answered(id=2, error={"code": -32602, "message": "b is missing"}), None),
        (answered(id=9, result={}), Cause.UNREADABLE),
        (answered(id=2, result={"isError": True, "content": []}), None),
        (answer(200, b"<html>"), Cause.UNREADABLE),
    ],
)
def test_whose_failure_a_call_is(
    server: ScriptedServer, behavior: Behavior, cause: Cause | None
) -> None:
    server.script = [*BEGUN, behavior]

    timeout = 0.3 if behavior is hang else 60.0  # a busy machine may need a second for an answer

    reply = call(mcp_tool(server.url, timeout=timeout), {"a": 1, "b": 2}, name="add")

    assert reply.outcome is not CallOutcome.ANSWERED
    assert (reply.cause, reply.failures) == (cause, int(cause is not None))


def test_a_session_that_the_server_forgot_is_begun_once_more(server: ScriptedServer) -> None:
    def begun(number: int, session: str) -> list[Behavior]:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode()
        return [answer(200, body, mcp_session_id=session), answer(202, b"")]

    said = answered(id=4, result={"content": [{"type": "text", "text": "3"}]})
    server.script = [*begun(1, "old"), answer(404), *begun(3, "new"), said]

    reply = call(mcp_tool(server.url), {"a": 1, "b": 2}, name="add")

    assert (reply.outcome, reply.text) == (CallOutcome.ANSWERED, "3")
    sessions = [headers.get("mcp-session-id") for headers, _ in server.requests]
    assert sessions == [None, "old", "old", None, "new", "new"]


def test_only_servers_that_the_operator_allows_are_called() -> None:
    with pytest.raises(PermissionDenied) as refused:
        check_tools([mcp_tool("http://10.0.0.1/mcp")], (), ())

    assert refused.value.param == "tools[0].config.url"
