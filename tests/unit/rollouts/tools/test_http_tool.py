"""Tools that are any HTTP endpoint."""

from typing import Any

import pytest

from services.contracts.base import JsonObject
from services.contracts.rollouts.multi_turn import Tool
from services.contracts.rollouts.trajectories import CallOutcome
from services.core.operator_environment import OperatorEnvironment
from services.rollouts.tools import ToolReply
from tests.unit.inference.scripted_server import ScriptedServer, answer, hang, reset
from tests.unit.rollouts.tools.toolboxes import call, function

SCHEMA = function("weather", city={"type": "string"})


def ask(
    server: ScriptedServer,
    arguments: JsonObject | None = None,
    schema: JsonObject = SCHEMA,
    **config: Any,
) -> ToolReply:
    tool = Tool(class_name="http", config={"url": server.url, **config}, tool_schema=schema)
    return call(tool, {"city": "Bern"} if arguments is None else arguments)


def test_arguments_are_sent_as_the_body_and_the_response_is_the_reply(
    server: ScriptedServer,
) -> None:
    server.script = [answer(body=b'{"degrees": 21}')]

    reply = ask(server, {"city": "Bern", "more": [1]})

    assert server.requests[0][1] == {"city": "Bern", "more": [1]}
    assert (reply.outcome, reply.text) == (CallOutcome.ANSWERED, '{"degrees": 21}')


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'"warm \\u00e9"', "warm é"),
        (b'"warm', '"warm'),
        (b"plain", "plain"),
        (b"", ""),
        (b"a\xff", "a\ufffd"),
        (b'"\\ud800"', "\ufffd"),
    ],
)
def test_any_response_body_is_a_reply(server: ScriptedServer, body: bytes, text: str) -> None:
    server.script = [answer(body=body)]

    assert ask(server).text == text


def test_a_five_megabyte_response_is_a_reply(server: ScriptedServer) -> None:
    server.script = [answer(body=b"x" * 5_000_000)]

    assert len(ask(server).text) == 5_000_000


def test_a_reply_over_the_size_limit_is_truncated(server: ScriptedServer) -> None:
    server.script = [answer(body=b"x" * (9 << 20))]

    assert len(ask(server).text) == 8 << 20


def test_any_2xx_status_is_a_success(server: ScriptedServer) -> None:
    server.script = [answer(201, body=b"made")]

    assert ask(server).text == "made"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "'city' is a required property"), ({"city": 5}, "argument city"), ({"city": []}, "city")],
)
def test_invalid_arguments_send_no_request(
    server: ScriptedServer, arguments: JsonObject, message: str
) -> None:
    reply = ask(server, arguments)

    assert reply.outcome is CallOutcome.INVALID_ARGUMENTS
    assert message in reply.text
    assert server.requests == []


@pytest.mark.parametrize("bad_response", [reset, answer(500, retry_after="0"), answer(504)])
def test_requests_with_unknown_outcome_are_not_retried(
    server: ScriptedServer, bad_response: Any
) -> None:
    server.script = [bad_response]

    reply = ask(server)

    assert (reply.outcome, len(server.requests)) == (CallOutcome.FAILED, 1)


@pytest.mark.parametrize("bad_response", [reset, answer(500, retry_after="0"), answer(503)])
def test_requests_to_an_idempotent_endpoint_are_retried(
    server: ScriptedServer, bad_response: Any
) -> None:
    server.script = [bad_response, answer(body=b"ok")]

    assert ask(server, idempotent=True).attempts == 2


def test_a_rejected_request_is_retried(server: ScriptedServer) -> None:
    server.script = [answer(429, retry_after="0"), answer(body=b"ok")]

    assert ask(server).attempts == 2


def test_a_hanging_endpoint_fails_the_call(server: ScriptedServer) -> None:
    server.script = [hang]

    assert ask(server, timeout=0.1).outcome is CallOutcome.TIMED_OUT


def test_a_failed_request_is_recorded_with_the_answer(server: ScriptedServer) -> None:
    server.script = [answer(500, body=b"out of order")]

    failed = ask(server).run

    assert failed is not None
    assert failed.failure is not None
    assert (failed.type, failed.failure.status) == ("http", 500)
    assert failed.failure.answer == "out of order"


def test_redirects_are_not_followed(server: ScriptedServer) -> None:
    server.script = [answer(307, location=f"{server.url}/else")]

    assert ask(server).outcome is CallOutcome.FAILED
    assert len(server.requests) == 1


def test_the_operators_key_for_the_origin_is_sent(server: ScriptedServer) -> None:
    server.script = [answer(body=b"")]
    origin = server.url.removesuffix("/v1")
    tool = Tool(class_name="http", config={"url": server.url}, tool_schema=SCHEMA)

    call(tool, {"city": "B"}, OperatorEnvironment(endpoint_keys={origin: "sk-1"}))

    assert server.requests[0][0]["authorization"] == "Bearer sk-1"
