"""Several tools in one toolbox."""

import asyncio
import threading
from typing import Any

import pytest

from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.jobs.worker.settings import WorkerSettings
from services.rollouts.tools import Toolbox, ToolReply, toolbox
from tests.support.waiting import wait_for
from tests.unit.inference.scripted_server import Exchange, ScriptedServer, answer, hang
from tests.unit.rollouts.tools.toolboxes import call, function, with_tools


def endpoint(server: ScriptedServer, name: str = "ask", **config: Any) -> Tool:
    schema = function(name)
    return Tool(class_name="http", config={"url": server.url, **config}, tool_schema=schema)


class ConcurrentRequests:
    """Blocks requests until ``size`` are in flight; records the maximum concurrency."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.most = self.now = 0
        self.lock = threading.Lock()

    def __call__(self, exchange: Exchange) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.barrier.wait(30)
        with self.lock:
            self.now -= 1
        exchange.send(200, b"done")


def calls(box: Toolbox, name: str, count: int) -> list["asyncio.Task[ToolReply]"]:
    return [asyncio.create_task(box.call(name, {})) for _ in range(count)]


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"num_workers": 5, "rate_limit": 2}, 2),
        ({"num_workers": 3, "rate_limit": 9}, 3),
        ({"num_workers": 4, "rate_limit": 2, "enable_global_rate_limit": False}, 4),
    ],
)
def test_the_number_of_concurrent_calls_is_bounded(
    server: ScriptedServer, config: dict[str, Any], most: int
) -> None:
    crowd = ConcurrentRequests(most)
    server.script = [crowd]

    async def twelve(box: Toolbox) -> list[ToolReply]:
        return await asyncio.gather(*calls(box, "ask", 12))

    replies = with_tools([endpoint(server, **config)], twelve)

    assert [reply.text for reply in replies] == ["done"] * 12
    assert crowd.most == most


def test_each_tool_has_its_own_limit(server: ScriptedServer) -> None:
    hanging = endpoint(server, "hanging", rate_limit=1)
    other = endpoint(server, "other", rate_limit=1)
    server.script = [hang, answer(body=b"free")]

    async def both(box: Toolbox) -> ToolReply:
        stuck = calls(box, "hanging", 5)
        await asyncio.to_thread(wait_for, lambda: server.requests or None, "a call arrives")
        reply = await box.call("other", {})
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        return reply

    assert with_tools([hanging, other], both).text == "free"


def test_a_cancelled_call_frees_its_slot(server: ScriptedServer) -> None:
    server.script = [hang, answer(body=b"free")]

    async def cancel(box: Toolbox) -> ToolReply:
        first, second = calls(box, "ask", 2)
        await asyncio.to_thread(wait_for, lambda: server.requests or None, "a call arrives")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return await second

    assert with_tools([endpoint(server, rate_limit=1)], cancel).text == "free"


def test_waiting_for_a_slot_times_out(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolbox, "SLOT_TIMEOUT", 0.1)
    server.script = [hang]

    async def wait(box: Toolbox) -> ToolReply:
        first = asyncio.create_task(box.call("ask", {}))
        await asyncio.to_thread(wait_for, lambda: server.requests or None, "a call arrives")
        reply = await box.call("ask", {})
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        return reply

    reply = with_tools([endpoint(server, rate_limit=1)], wait)

    assert (reply.outcome, reply.attempts) == (CallOutcome.TIMED_OUT, 0)
    assert "busy" in reply.text


def test_an_unknown_tool_reply_lists_the_tools(server: ScriptedServer) -> None:
    reply = call(endpoint(server), {}, name="aks" * 1000)

    assert reply.outcome is CallOutcome.UNKNOWN_TOOL
    assert "the tools are: ask" in reply.text
    assert len(reply.text) < 300


def test_without_tools_every_call_is_unknown() -> None:
    reply = with_tools([], lambda box: box.call("ask", {}))

    assert reply.outcome is CallOutcome.UNKNOWN_TOOL


def test_an_internal_error_fails_the_call_without_details(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret of ours")

    monkeypatch.setattr("services.rollouts.tools.user_tools.JsonService.post", broken)

    reply = call(endpoint(server), {})

    assert (reply.outcome, reply.text) == (CallOutcome.FAILED, "Error: the tool failed.")
    assert reply.error == "internal error: RuntimeError"


def test_tools_are_shown_in_their_configured_order(server: ScriptedServer) -> None:
    tools = [endpoint(server, "b"), Tool(class_name="search"), Tool(class_name="sandbox")]

    async def names(box: Toolbox) -> list[str]:
        return [schema["function"]["name"] for schema in box.schemas]

    assert with_tools(tools, names) == ["b", "search", "code_interpreter"]


def test_the_operator_environment_round_trips_through_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEMPER_SANDBOX_URL", "http://sandbox")
    monkeypatch.setenv("TEMPER_SANDBOX_API_KEY", "sk-sandbox")
    monkeypatch.setenv("TEMPER_ENDPOINT_KEYS", '{"https://a.example": "sk-a"}')
    monkeypatch.setenv("TEMPER_ALLOWED_CALLABLES", "a.b, c.d")
    environment = OperatorEnvironment.of(WorkerSettings())
    variables = environment.variables()

    assert OperatorEnvironment.take_from(variables) == environment
    assert variables == {}
    assert environment.sandbox_url == "http://sandbox:80"
    assert environment.allowed_callables == ("a.b", "c.d")
    assert "sk-" not in repr(environment)


@pytest.mark.parametrize(("strict", "requests"), [(True, 0), (False, 1)])
def test_strict_arguments_are_checked_before_any_tool_is_called(
    server: ScriptedServer, strict: bool, requests: int
) -> None:
    schema = function("run", code={"type": "string"})
    schema["function"]["parameters"]["additionalProperties"] = False
    schema["function"]["strict"] = strict
    tool = Tool(class_name="sandbox", tool_schema=schema)
    server.script = [answer(status=400)]
    origin = server.url.rpartition("/")[0] if server.url.count("/") > 2 else server.url

    reply = call(tool, {"code": "1", "more": 2}, OperatorEnvironment(sandbox_url=origin))

    assert reply.outcome is CallOutcome.INVALID_ARGUMENTS
    assert len(server.requests) == requests
