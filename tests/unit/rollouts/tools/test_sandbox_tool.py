"""Tools that run code: their requests and what the model reads."""

from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.tool_runs import KEPT_ANSWER_CHARACTERS, KEPT_OUTPUT_CHARACTERS
from services.contracts.rollouts.trajectories import CallOutcome
from services.contracts.sandbox.programs import RunStatus
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.tools import ToolReply, sandbox
from tests.unit.inference.scripted_server import ScriptedServer, answer, hang, reset
from tests.unit.rollouts.tools.toolboxes import call, function

FINISHED = {"status": "Finished", "execution_time": 0.1, "return_code": 0, "stderr": ""}


def ran(outcome: str = "Success", **result: Any) -> JsonObject:
    return {"status": outcome, "message": "", "run_result": {**FINISHED, "stdout": "", **result}}


def run(
    server: ScriptedServer, arguments: JsonObject | None, kind: str = "sandbox", **config: Any
) -> ToolReply:
    schema = config.pop("schema", None)
    config = {"sandbox_fusion_url": f"{server.url}/run_code", **config}
    return call(Tool(class_name=kind, config=config, tool_schema=schema), arguments)


def replied(server: ScriptedServer, body: object, **config: Any) -> ToolReply:
    server.script = [answer(body=body)]
    return run(server, {"code": "pass"}, **config)


def test_the_published_request_body_is_sent(server: ScriptedServer) -> None:
    server.script = [answer(body=ran(stdout="3\n"))]

    reply = run(server, {"code": "print(3)"}, default_timeout=7, memory_limit_mb=99)

    assert (reply.outcome, reply.text, reply.error, reply.attempts) == ("answered", "3\n", None, 1)
    (request,) = server.requests
    assert request[1] == {
        "code": "print(3)",
        "language": "python",
        "compile_timeout": 7,
        "run_timeout": 7,
        "memory_limit_MB": 99,
        "stdin": None,
        "files": {},
        "fetch_files": [],
    }


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (ran(stdout="out\n", stderr="err\n"), "out\nerr\n"),
        (ran(stdout=""), ""),
        (ran("Failed", return_code=1, stderr="Traceback"), "Traceback"),
        (ran("Failed", return_code=3, stdout="so far"), "so far\nexit code 3"),
        (ran("Failed", return_code=-9, stdout="a\n"), "a\nkilled by signal 9"),
        (ran("Failed", return_code=-9, out_of_memory=True), "killed: out of memory"),
        (
            ran("Failed", status="TimeLimitExceeded", return_code=None, stdout="begun\n"),
            "begun\nTimeLimitExceeded after 30 s",
        ),
        (ran("Failed", status="TimeLimitExceeded"), "TimeLimitExceeded after 30 s"),
        (
            {
                "status": "Failed",
                "compile_result": {**FINISHED, "return_code": 1, "stderr": "x.c:1"},
            },
            "x.c:1\nthe code could not be compiled",
        ),
        (
            {"status": "Failed", "compile_result": {"status": "TimeLimitExceeded"}},
            "compiling: TimeLimitExceeded after 30 s",
        ),
        ({"status": "Failed"}, "Error: the code was not run."),
        (ran(stdout="lone \ud800 end"), "lone \ufffd end"),
    ],
)
def test_the_model_reads_the_failure(server: ScriptedServer, body: JsonObject, text: str) -> None:
    reply = replied(server, body)

    assert reply.outcome is CallOutcome.ANSWERED
    assert reply.text == text


def test_the_run_behind_a_reply_is_recorded_with_the_heads_of_its_outputs(
    server: ScriptedServer,
) -> None:
    printed = ran("Failed", return_code=3, stdout="o" * 99_999, stderr="e", peak_memory_mb=12.5)

    run = replied(server, printed).run

    assert run is not None
    assert run.type == "program"
    assert (run.language, run.code, run.status) == ("python", None, "Failed")
    result = run.run_result
    assert result is not None
    assert (result.return_code, result.peak_memory_mb, result.stderr) == (3, 12.5, "e")
    assert result.stdout == "o" * KEPT_OUTPUT_CHARACTERS
    assert (result.stdout_truncated, result.stderr_truncated) == (True, False)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (ran(stdout="a", stderr="b"), "ab"),
        (ran("Failed", return_code=3), ""),
        (ran("Failed", status="TimeLimitExceeded", stdout="begun"), "no stdout here"),
        ({"status": "Failed", "compile_result": FINISHED}, "no stdout here"),
    ],
)
def test_upstream_reply_format_is_opt_in(
    server: ScriptedServer, body: JsonObject, text: str
) -> None:
    assert replied(server, body, upstream_replies=True).text == text


def test_a_sandbox_error_fails_the_call(server: ScriptedServer) -> None:
    reply = replied(server, {"status": "SandboxError", "message": "lean is not installed"})

    assert reply.outcome is CallOutcome.FAILED
    assert "lean is not installed" in reply.text
    assert reply.error == "lean is not installed"
    assert reply.run is not None
    assert reply.run.type == "program"
    assert reply.run.status is RunStatus.SANDBOX_ERROR


def test_a_failed_request_is_recorded_with_the_code_and_the_answer(server: ScriptedServer) -> None:
    server.script = [answer(500, body=b"no \xff room" + b"x" * 9999)]

    reply = run(server, {"code": "```python\nx\n```"}, "retool")

    assert (reply.outcome, reply.attempts) == (CallOutcome.FAILED, 1)
    made = reply.run
    assert made is not None
    assert made.type == "program"
    assert (made.language, made.status, made.run_result) == ("python", None, None)
    assert made.code == server.requests[0][1]["code"]
    assert made.failure is not None
    assert made.failure.status == 500
    assert made.failure.answer.startswith("no \ufffd room")
    assert len(made.failure.answer) == KEPT_ANSWER_CHARACTERS


@pytest.mark.parametrize(
    "bad_response", [reset, answer(504, retry_after="0"), answer(body=b"<html>")]
)
def test_transient_failures_are_retried(server: ScriptedServer, bad_response: Any) -> None:
    server.script = [bad_response, answer(body=ran(stdout="5"))]

    reply = run(server, {"code": "5"})

    assert (reply.text, reply.attempts) == ("5", 2)


def test_a_full_sandbox_is_tried_three_times(server: ScriptedServer) -> None:
    server.script = [answer(504, retry_after="0")]

    reply = run(server, {"code": "5"})

    assert (reply.outcome, reply.attempts) == (CallOutcome.FAILED, 3)
    assert "504" in reply.text


def test_a_hanging_sandbox_fails_the_call(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "GRACE_SECONDS", 0.1)
    server.script = [hang]

    reply = run(server, {"code": "5"}, default_timeout=0.1)

    assert (reply.outcome, reply.attempts) == (CallOutcome.TIMED_OUT, 1)
    assert "in time" in reply.text
    assert reply.error is not None
    assert server.url in reply.error
    assert server.url not in reply.text


@pytest.mark.parametrize("arguments", [{}, {"code": 5}, {"code": None}, None])
def test_arguments_without_code_send_no_request(
    server: ScriptedServer, arguments: JsonObject | None
) -> None:
    reply = run(server, arguments)

    assert reply.outcome is CallOutcome.INVALID_ARGUMENTS
    assert reply.text.startswith("Error: ")
    assert server.requests == []


def test_a_refused_program_is_reported_as_invalid_arguments(server: ScriptedServer) -> None:
    server.script = [answer(422, body={"error": "code: too long"})]

    reply = run(server, {"code": "5"})

    assert reply.outcome is CallOutcome.INVALID_ARGUMENTS
    assert "too long" in reply.text


def test_the_model_can_set_only_declared_arguments(server: ScriptedServer) -> None:
    server.script = [answer(body=ran())]
    arguments = {"code": "x", "language": "bash", "timeout": 5}
    text = {"type": "string"}
    offered = function("run", code=text, language=text, timeout={"type": "number"})

    run(server, arguments)
    run(server, arguments, schema=offered)
    run(server, {**arguments, "timeout": 500}, schema=offered)

    sent = [(body["language"], body["run_timeout"]) for _, body in server.requests]
    assert sent == [("python", 30), ("bash", 5), ("bash", 30)]


@pytest.mark.parametrize(
    "choice", [{"timeout": True}, {"timeout": -1}, {"timeout": "1"}, {"language": "klingon"}]
)
def test_an_invalid_choice_is_reported(server: ScriptedServer, choice: JsonObject) -> None:
    text = {"type": "string"}
    offered = function("run", code=text, language=text, timeout={"type": "number"})

    reply = run(server, {"code": "x", **choice}, schema=offered)

    assert reply.outcome is CallOutcome.INVALID_ARGUMENTS


def test_retool_prints_the_last_value(server: ScriptedServer) -> None:
    server.script = [answer(body=ran())]

    made = run(server, {"code": "```python\nx = 2\nx\n```"}, "mindspeed_rl.tools.retool.ReTool")
    run(server, {"code": "x"}, "retool", default_language="bash")

    shown, bash = (body["code"] for _, body in server.requests)
    assert "print(_)" in shown
    assert made.run is not None
    assert made.run.type == "program"
    assert made.run.code == shown
    assert bash == "x"


def test_the_operators_sandbox_receives_its_key(server: ScriptedServer) -> None:
    origin = server.url.removesuffix("/v1")
    environment = OperatorEnvironment(sandbox_url=origin, sandbox_api_key="sk-own")
    server.script = [answer(body=ran(stdout="own"))]

    for config in ({}, {"sandbox_fusion_url": "http://localhost:8080/run_code"}):
        tool = Tool(class_name="sandbox", config=config)
        assert call(tool, {"code": "1"}, environment).text == "own"

    assert {headers["authorization"] for headers, _ in server.requests} == {"Bearer sk-own"}


def test_other_sandboxes_do_not_receive_the_operators_key(server: ScriptedServer) -> None:
    server.script = [answer(body=ran())]
    config = {"sandbox_fusion_url": f"{server.url}/run_code"}
    environment = OperatorEnvironment(sandbox_api_key="sk-own", endpoint_keys={})

    call(Tool(class_name="sandbox", config=config), {"code": "1"}, environment)

    assert "authorization" not in server.requests[0][0]
