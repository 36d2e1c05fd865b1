"""Calls that the infrastructure fails are told apart from those that the model got wrong, and are
repeated where that is safe."""

import asyncio
import os
import signal
from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.failures import InfrastructureCause as Cause
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.inference.clients import json_service
from services.rollouts.tools import ToolReply, open_toolbox, search
from tests.unit.inference.scripted_server import (
    Behavior,
    ScriptedServer,
    answer,
    break_off,
    hang,
    reset,
)
from tests.unit.rollouts.tools.toolboxes import call, function

HERE = "tests.unit.rollouts.tools.test_infrastructure"
BUSY = answer(503, body=b"", retry_after="0")


def http_tool(url: str, **config: Any) -> Tool:
    schema = function("ask", city={"type": "string"})
    return Tool(class_name="http", config={"url": url, **config}, tool_schema=schema)


@pytest.mark.parametrize(
    ("behavior", "cause"),
    [
        (reset, Cause.RESET),
        (break_off, Cause.RESET),
        (hang, Cause.TIMED_OUT),
        (BUSY, Cause.OVERLOADED),
        (answer(500), Cause.SERVER_ERROR),
        (answer(404), Cause.MISCONFIGURED),
        (answer(302, location="http://127.0.0.1:1/"), Cause.MISCONFIGURED),
        (answer(408), Cause.TIMED_OUT),
        (answer(422), None),
        (answer(409), None),
    ],
)
def test_an_http_tool(server: ScriptedServer, behavior: Behavior, cause: Cause | None) -> None:
    server.script = [behavior]
    timeout = 0.3 if behavior is hang else 60.0  # a busy machine may need a second for an answer
    reply = call(http_tool(server.url, timeout=timeout), {"city": "Bern"})
    assert reply.outcome is not CallOutcome.ANSWERED
    assert (reply.cause, reply.failures) == (cause, int(cause is not None))


def test_an_answer_that_is_longer_than_any_may_be(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_service, "LARGEST_ANSWER", 1 << 20)
    server.script = [answer(body=b"x" * (2 << 20))]
    reply = call(http_tool(server.url), {"city": "Bern"})
    assert (reply.outcome, reply.cause) == (CallOutcome.FAILED, None)


def test_a_tool_that_is_not_there() -> None:
    reply = call(http_tool("http://127.0.0.1:1/"), {"city": "Bern"})
    assert (reply.cause, reply.failures) == (Cause.REFUSED, 1)


@pytest.mark.parametrize("name", ["sandbox", "search"])
def test_an_answer_that_does_not_follow_the_contract(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(search, "ATTEMPTS", 2)
    server.script = [answer(body=b"<html>")]
    places = {"sandbox": "sandbox_fusion_url", "search": "retrieval_service_url"}
    arguments: dict[str, JsonObject] = {"sandbox": {"code": "1"}, "search": {"query_list": ["a"]}}
    reply = call(Tool(class_name=name, config={places[name]: server.url}), arguments[name])
    assert (reply.outcome, reply.cause) == (CallOutcome.FAILED, Cause.UNREADABLE)


ERROR: JsonObject = {"status": "Error", "stdout": "", "stderr": "lost"}


@pytest.mark.parametrize(
    ("properties", "result", "outcome", "cause"),
    [
        (["code"], {"run_result": ERROR}, CallOutcome.FAILED, Cause.SERVICE_ERROR),
        (["code"], {"compile_result": ERROR}, CallOutcome.FAILED, Cause.SERVICE_ERROR),
        (["code"], {}, CallOutcome.FAILED, Cause.MISCONFIGURED),
        (["code", "language"], {}, CallOutcome.INVALID_ARGUMENTS, None),
    ],
)
def test_a_sandbox_error_is_the_models_only_if_it_chose_the_language(
    server: ScriptedServer,
    properties: list[str],
    result: JsonObject,
    outcome: CallOutcome,
    cause: Cause | None,
) -> None:
    server.script = [answer(body={"status": "SandboxError", "message": "lost", **result})]
    schema = function("run", **{name: {"type": "string"} for name in properties})
    config = {"sandbox_fusion_url": server.url}
    tool = Tool(class_name="sandbox", config=config, tool_schema=schema)
    reply = call(tool, {"code": "1", "language": "julia"})
    assert (reply.outcome, reply.cause) == (outcome, cause)


def act(what: str) -> str:
    match what:
        case "unavailable":
            raise ConnectionError("the database is down")
        case "raise":
            raise ValueError("no such city")
        case "hang":
            signal.pause()
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
    return what


@pytest.mark.parametrize(
    ("what", "cause"),
    [
        ("unavailable", Cause.SERVICE_ERROR),
        ("raise", None),
        ("hang", Cause.TIMED_OUT),
        ("die", Cause.KILLED),
    ],
)
def test_a_python_function(what: str, cause: Cause | None) -> None:
    path = f"{HERE}.act"
    config = {"callable": path, "timeout": 0.3 if what == "hang" else 60.0}
    schema = function("act", what={"type": "string"})
    tool = Tool(class_name="callable", config=config, tool_schema=schema)
    reply = call(tool, {"what": what}, OperatorEnvironment(allowed_callables=(path,)))
    assert (reply.cause, reply.outcome is CallOutcome.ANSWERED) == (cause, False)


def test_a_python_function_that_cannot_be_loaded() -> None:
    path = f"{HERE}_that_is_not_there.act"
    config = {"callable": path, "timeout": 30}
    tool = Tool(class_name="callable", config=config, tool_schema=function("act"))
    reply = call(tool, {}, OperatorEnvironment(allowed_callables=(path,)))
    assert (reply.outcome, reply.cause) == (CallOutcome.FAILED, Cause.NOT_STARTED)


def repeated(tool: Tool, arguments: JsonObject) -> ToolReply:
    async def ask() -> ToolReply:
        async with open_toolbox([tool], OperatorEnvironment()) as toolbox:
            return await toolbox.call(toolbox.schemas[0]["function"]["name"], arguments)

    return asyncio.run(ask())


def test_an_idempotent_call_is_repeated_until_it_is_answered(server: ScriptedServer) -> None:
    server.script = [*[BUSY] * 3, answer(body=b'"sunny"')]
    reply = repeated(http_tool(server.url, idempotent=True), {"city": "Bern"})
    assert (reply.outcome, reply.text) == (CallOutcome.ANSWERED, "sunny")
    assert (reply.cause, reply.failures) == (None, 1)


@pytest.mark.parametrize(
    ("behavior", "idempotent", "requests"),
    [(reset, False, 1), (answer(404), True, 1), (answer(422), True, 1)],
)
def test_other_calls_are_not_repeated(
    server: ScriptedServer, behavior: Behavior, idempotent: bool, requests: int
) -> None:
    server.script = [behavior, answer(body=b'"sunny"')]
    reply = repeated(http_tool(server.url, idempotent=idempotent), {"city": "Bern"})
    assert reply.outcome is not CallOutcome.ANSWERED
    assert len(server.requests) == requests
