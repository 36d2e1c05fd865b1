"""Tools that the gateway runs for a response."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from tests.support.engines.environment_server import EnvironmentServer
from tests.support.engines.serving_worker import RunningServing, ServingWorker
from tests.support.processes import running_service
from tests.support.waiting import wait_for
from tests.unit.api.tool_upstream import Exchange, ToolUpstream, running_upstream

STEP_SECONDS = 60.0
CODE: Any = {"type": "code_interpreter", "container": {"type": "auto"}}
SEARCH: Any = {"type": "file_search", "vector_store_ids": ["manuals"], "max_num_results": 2}
Meanwhile = Callable[[Callable[[], Any]], Future[Any]]


def answer(exchange: Exchange) -> None:
    """A sandbox that echoes the program, and an index with one passage."""
    asked = json.loads(exchange.read_body())
    if exchange.path == "/run_code":
        ran = {"status": "Finished", "return_code": 0, "stdout": f"ran {asked['code']}"}
        body: Any = {"status": "Success", "message": "", "run_result": ran}
    else:
        hit = {"document": {"id": "d1", "contents": "Title\nA passage."}, "score": 0.5}
        body = {"result": [[hit] for _ in asked["queries"]]}
    content = json.dumps(body).encode()
    exchange.begin(200, content_length=str(len(content)), content_type="application/json")
    exchange.wfile.write(content)


@pytest.fixture
def services() -> Iterator[ToolUpstream]:
    with running_upstream() as upstream:
        upstream.behavior = answer
        yield upstream


@pytest.fixture
def sums(tmp_path: Path) -> Iterator[str]:
    """The published MCP server with one tool."""
    log = tmp_path / "mcp.log"
    with running_service("tests.support.programs.mcp_server", {}, log) as (_, url):
        yield url


@pytest.fixture
def game() -> Iterator[EnvironmentServer]:
    with EnvironmentServer() as server:
        yield server


@pytest.fixture
def settings(services: ToolUpstream, sums: str, game: EnvironmentServer) -> dict[str, Any]:
    return {
        "serving_wait_seconds": 60.0,
        "sandbox_url": services.url,
        "retrieval_url": services.url,
        "allowed_endpoints": [sums, game.origin],
        "response_turns": 3,
    }


@pytest.fixture
def serving(client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile) -> RunningServing:
    """The serving of ``base``, which a first request has started."""
    first = meanwhile(lambda: ask(client, "hello"))
    serving = worker.serve_next()
    assert first.result(STEP_SECONDS).output_text == "echo: hello"
    return serving


def ask(client: openai.OpenAI, prompt: str, **fields: Any) -> Response:
    response: Response = client.responses.create(model="base", input=prompt, **fields)
    return response


def test_the_tools_of_the_server_are_run_between_turns(
    serving: RunningServing, client: openai.OpenAI, sums: str
) -> None:
    mcp: Any = {
        "type": "mcp",
        "server_label": "sums",
        "server_url": f"{sums}/mcp",
        "require_approval": "never",
        "allowed_tools": ["add"],
    }
    with client.responses.stream(model="base", input='{"a": 1, "b": 2}', tools=[mcp]) as events:
        kinds = [event.type for event in events]
        added: Any = events.get_final_response()
    ran: Any = ask(client, '{"code": "1 + 1"}', tools=[CODE])
    found: Any = ask(client, '{"queries": ["what?"]}', tools=[SEARCH])

    assert [item.type for item in added.output] == [
        "mcp_list_tools",
        "message",
        "mcp_call",
        "message",
    ]
    listed, _, called, _ = added.output
    assert [tool.name for tool in listed.tools] == ["add"]
    assert (called.output, called.error, called.status) == ("3", None, "completed")
    for kind in ("mcp_list_tools", "mcp_call"):
        assert f"response.{kind}.in_progress" in kinds
        assert f"response.{kind}.completed" in kinds
    assert [item.type for item in ran.output] == ["code_interpreter_call", "message"]
    assert ran.output[0].outputs[0].logs.startswith("ran ")
    assert ran.output_text.startswith("echo: ran ")
    assert [item.type for item in found.output] == ["file_search_call", "message"]
    assert found.output[0].results[0].model_dump()["text"] == "A passage."
    assert "A passage." in found.output_text
    # A later response sees the call and its result as the model did.
    ask(client, "and?", previous_response_id=ran.id)
    messages = serving.engine.bodies[-1]["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert messages[2]["content"].startswith("ran ")


def test_tools_end_at_their_limits_and_their_failures_are_the_models(
    serving: RunningServing, client: openai.OpenAI, services: ToolUpstream, sums: str
) -> None:
    mcp: Any = {
        "type": "mcp",
        "server_label": "sums",
        "server_url": f"{sums}/mcp",
        "require_approval": "never",
    }
    refused: Any = ask(client, '{"a": -1, "b": 2}', tools=[mcp])
    services.behavior = lambda exchange: exchange.begin(500, content_length="0")
    broken: Any = ask(client, '{"code": 1}', tools=[CODE])

    assert refused.output[1].status == "failed"
    assert "a is negative" in refused.output_text
    assert (broken.status, broken.output[0].status) == ("completed", "failed")
    serving.engine.always_calls = True
    endless: Any = ask(client, '{"a": 1, "b": 2}', tools=[mcp])
    few: Any = ask(client, '{"a": 1, "b": 2}', tools=[mcp], max_tool_calls=1)
    assert (endless.status, endless.incomplete_details.reason) == ("incomplete", "max_turns")
    assert [item.type for item in endless.output].count("mcp_call") == 3
    assert (few.status, few.incomplete_details.reason) == ("incomplete", "max_tool_calls")
    assert [item.type for item in few.output].count("mcp_call") == 1


def test_an_environment_plays_an_episode_for_each_response(
    serving: RunningServing, client: openai.OpenAI, game: EnvironmentServer
) -> None:
    tool: Any = {
        "type": "openenv",
        "server_label": "game",
        "server_url": game.origin,
        "reset": {"level": 2},
        "allowed_tools": ["add"],
    }

    played: Any = ask(client, '{"by": 4}', tools=[tool])

    assert [item.type for item in played.output] == ["mcp_list_tools", "mcp_call", "message"]
    assert [each.name for each in played.output[0].tools] == ["add"]
    assert (played.output[1].name, played.output[1].status) == ("add", "completed")
    assert played.output[1].output in played.output_text
    assert [each["level"] for each in game.resets] == [2]
    wait_for(lambda: game.sessions == 0, "the episode's session to end")
    serving.engine.always_calls = True
    again = game.opened
    endless: Any = ask(client, '{"by": 1}', tools=[tool])
    assert endless.incomplete_details.reason == "max_turns"
    assert game.opened == again + 1  # one episode for all its turns


def test_a_tool_that_is_not_allowed_is_refused_by_its_field(
    client: openai.OpenAI, sums: str
) -> None:
    mcp = {"type": "mcp", "server_label": "x", "server_url": sums, "require_approval": "never"}
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("tools[0].server_url", {**mcp, "server_url": "http://169.254.169.254/mcp"}),
        ("tools[0].server_url", {**mcp, "server_url": "ftp://x"}),
        ("tools[0].require_approval", {**mcp, "require_approval": "always"}),
        ("tools[0].authorization", {**mcp, "authorization": "secret"}),
        ("tools[0].container", {"type": "code_interpreter", "container": "cntr_1"}),
        ("tools[0].vector_store_ids[0]", {**SEARCH, "vector_store_ids": ["../etc"]}),
        ("tools[0].max_num_results", {**SEARCH, "max_num_results": 0.5}),
        ("tools[0].type", {"type": "computer_use"}),
        ("tools[0].server_url", {**mcp, "type": "openenv", "server_url": "http://127.0.0.1:1"}),
        ("tools[0].reset", {**mcp, "type": "openenv", "reset": [1]}),
    ]
    for param, tool in wrong:
        with pytest.raises(openai.APIStatusError) as refused:
            ask(client, "hello", tools=[tool])
        assert refused.value.status_code in (400, 403)
        assert refused.value.body["param"] == param  # type: ignore[index]  # an error has a body
