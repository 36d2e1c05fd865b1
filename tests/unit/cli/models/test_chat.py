"""``temper chat``, ``temper deploy`` and ``temper undeploy`` against a scripted gateway."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.responses import JSONResponse, Response

from temper.cli.main import main
from temper.cli.models.chat import ChatHistory, tool_of
from temper.cli.output import Output
from temper.client import Temper, UnexpectedAnswer
from tests.unit.cli.conftest import ScriptedServer

CHAT = "/v1/chat/completions"
NOT_READY = {
    "message": "'tiny' is not ready: waiting for 1 GPU",
    "type": "server_error",
    "code": "model_not_ready",
}
SERVING = {
    "id": "serve-1",
    "created_at": 0,
    "status": "queued",
    "model": "base",
    "keep_warm": True,
    "queue_reason": "waiting for 1 GPU",
}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    monkeypatch.setenv("TEMPER_HOME", str(tmp_path))
    monkeypatch.setenv("TEMPER_API_URL", server.url)


def events(*contents: str, done: bool = True) -> Response:
    chunks = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in contents]
    lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
    text = "".join(lines) + ("data: [DONE]\n\n" if done else "")
    return Response(text, media_type="text/event-stream")


def bodies(server: ScriptedServer) -> list[dict[str, Any]]:
    return [json.loads(each.body) for each in server.received]


def test_a_prompt_is_answered_as_text(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on(CHAT, events("four", " [bold]and[/bold] more"))

    options = ["--system", "Be brief.", "--temperature", "0", "--max-tokens", "9", "--stop", "."]
    assert main(["chat", "tiny", "What is 2+2?", *options]) == 0

    assert capsys.readouterr().out == "four [bold]and[/bold] more\n"
    sent = bodies(server)[0]
    assert (sent["temperature"], sent["max_tokens"], sent["stop"]) == (0.0, 9, ["."])
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    assert "seed" not in sent  # the engine decides unset options


def test_a_prompt_may_come_through_a_pipe(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on(CHAT, events("read"))
    monkeypatch.setattr("sys.stdin", io.StringIO("a long text"))

    assert main(["chat", "tiny"]) == 0

    assert bodies(server)[0]["messages"][-1]["content"] == "a long text"
    assert capsys.readouterr().out == "read\n"


def test_a_conversation_is_remembered_until_it_is_reset(
    server: ScriptedServer, client: Temper
) -> None:
    server.on(CHAT, events("first"), events("second"), events("third"))
    conversation = ChatHistory(client, Output(False), "tiny", "Be brief.", 0.0, {})

    conversation.ask("one")
    conversation.ask("two")
    conversation.reset()
    conversation.ask("three")

    said = [[message["content"] for message in body["messages"]] for body in bodies(server)]
    assert said == [
        ["Be brief.", "one"],
        ["Be brief.", "one", "first", "two"],
        ["Be brief.", "three"],
    ]


def test_a_cold_model_is_awaited_and_its_reason_is_shown_once(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    cold = JSONResponse({"error": NOT_READY}, 503, headers={"Retry-After": "0"})
    server.on(CHAT, cold, cold, events("warm"))

    assert main(["chat", "tiny", "hi"]) == 0

    printed = capsys.readouterr()
    assert printed.out == "warm\n"
    assert printed.err.count("waiting for 1 GPU") == 1


def test_a_model_that_stays_cold_is_an_error(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on(CHAT, JSONResponse({"error": NOT_READY}, 503))

    assert main(["chat", "tiny", "hi", "--wait", "0"]) == 1

    assert "model_not_ready" in capsys.readouterr().err


def test_a_truncated_stream_is_an_error(server: ScriptedServer, client: Temper) -> None:
    server.on(CHAT, events("half", done=False))

    with pytest.raises(UnexpectedAnswer, match="ended before the answer did"):
        list(client.chat.stream("tiny", []))


def test_deploying_shows_why_the_engine_is_not_up_yet(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("/v1/models/team/small/deploy", JSONResponse(SERVING))

    assert main(["deploy", "team/small", "--keep-warm", "--idle-seconds", "60"]) == 0

    out = capsys.readouterr().out
    assert "serve-1" in out
    assert "waiting for 1 GPU" in out
    sent = bodies(server)[0]
    assert (sent["keep_warm"], sent["idle_seconds"]) == (True, 60)


def test_undeploy_lists_the_stopped_engines(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "/v1/models/base/undeploy"
    server.on(
        path,
        JSONResponse({"model": "base", "servings": ["serve-1"]}),
        JSONResponse({"model": "base", "servings": []}),
    )

    assert main(["undeploy", "base"]) == 0
    assert main(["undeploy", "base"]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "serve-1 is stopping",
        "base is not running; a request starts it without options",
    ]


def response_events(*events: dict[str, Any]) -> Response:
    lines = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events]
    return Response("".join(lines), media_type="text/event-stream")


def test_a_conversation_with_tools_shows_calls_and_remembers_them(
    server: ScriptedServer, client: Temper, capsys: pytest.CaptureFixture[str]
) -> None:
    call = {"type": "code_interpreter_call", "id": "ci_1", "code": "1+2", "status": "completed"}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text"}]}
    ended = response_events(
        {"type": "response.created", "response": {}},
        {"type": "response.output_item.done", "item": call},
        {"type": "response.output_text.delta", "delta": "It is "},
        {"type": "response.output_text.delta", "delta": "3."},
        {"type": "response.completed", "response": {"output": [call, said]}},
    )
    failed = response_events(
        {"type": "response.failed", "response": {"error": {"message": "too many turns"}}}
    )
    cold = JSONResponse({"error": NOT_READY}, 503)
    server.on("/v1/responses", cold, ended, failed, ended)
    tools = [tool_of("code_interpreter", 1), tool_of("openenv=http://127.0.0.1:1", 2)]
    history = ChatHistory(client, Output(as_json=False), "tiny", None, 60.0, {}, tools)

    history.ask("1+2?")
    with pytest.raises(UnexpectedAnswer, match="too many turns"):
        history.ask("and 1 more?")
    history.ask("and 2 more?")

    printed = capsys.readouterr()
    assert printed.out == "It is 3.\nIt is 3.\n"
    assert "code_interpreter_call: 1+2" in printed.err
    _, first, _, last = bodies(server)
    assert [tool["type"] for tool in first["tools"]] == ["code_interpreter", "openenv"]
    assert first["store"] is False
    asked, again = ({"role": "user", "content": text} for text in ("1+2?", "and 2 more?"))
    assert last["input"] == [asked, call, said, again]


@pytest.mark.parametrize("options", [["--tool", "browser"], ["--tool", "mcp=", "--seed", "1"]])
def test_tools_that_do_not_exist_are_refused(
    server: ScriptedServer, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert main(["chat", "tiny", "hi", *options]) != 0

    assert not server.received
    assert "tool" in capsys.readouterr().err
