"""Requests to a server that refuses, is slow, or is broken."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from services.contracts.failures import InfrastructureCause
from services.inference.causes import cause_of
from services.inference.chat_answers import TokenUsage, ToolCall
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.retries import Retries, ServiceFailed, model_retries
from tests.support.processes import free_port
from tests.support.virtual_time import run_advancing_clock
from tests.unit.inference.scripted_server import (
    COMPLETION,
    ScriptedServer,
    answer,
    break_off,
    hang,
    reset,
    running_server,
)

SOON = model_retries(attempts=3, deadline_seconds=60, first_wait_seconds=0.001)
# Backoff by itself would exceed the deadline, so only Retry-After can lead to a retry.
TOO_LATE = model_retries(
    attempts=3, deadline_seconds=60, first_wait_seconds=3600, longest_wait_seconds=3600
)
REQUEST = ChatRequest(model="m", messages=[{"role": "user", "content": "12+34"}], max_tokens=8)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with running_server() as scripted:
        yield scripted


async def ask(url: str, retries: Retries = SOON, limit: float = 30.0) -> ChatCompletion:
    async with InferenceClient(url, "sk-secret", limit, retries=retries) as client:
        return await client.chat(REQUEST)


def chat(url: str, retries: Retries = SOON, timeout: float = 30.0) -> ChatCompletion:
    return asyncio.run(ask(url, retries, timeout))


def refused(url: str, retries: Retries = SOON, timeout: float = 30.0) -> ServiceFailed:
    with pytest.raises(ServiceFailed) as caught:
        chat(url, retries, timeout)
    return caught.value


def test_a_completion_is_parsed(server: ScriptedServer) -> None:
    completion = chat(server.url)

    assert completion.content == "46"
    assert completion.finish_reason == "stop"
    assert completion.usage == TokenUsage(prompt=7, completion=2)
    assert completion.tool_calls == ()
    assert completion.attempts == 1
    assert completion.latency_seconds > 0


def test_only_set_fields_and_the_api_key_are_sent(server: ScriptedServer) -> None:
    chat(server.url)

    headers, body = server.requests[0]
    assert headers["authorization"] == "Bearer sk-secret"
    assert body == {"model": "m", "messages": REQUEST.messages, "max_tokens": 8}


def test_tool_calls_are_parsed(server: ScriptedServer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"x": 1}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    server.script = [answer(body=body)]

    completion = chat(server.url)

    assert completion.content is None
    assert completion.tool_calls == (ToolCall("c1", "run", '{"x": 1}'),)
    assert completion.usage is None


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_transient_statuses_are_retried(server: ScriptedServer, status: int) -> None:
    server.script = [answer(status, {}), answer()]

    assert chat(server.url).attempts == 2


@pytest.mark.parametrize("bad_response", [reset, break_off])
def test_a_broken_connection_is_retried(server: ScriptedServer, bad_response: Any) -> None:
    server.script = [bad_response, answer()]

    assert chat(server.url).attempts == 2


def test_an_answer_that_the_server_aborted_is_retried(server: ScriptedServer) -> None:
    [choice] = COMPLETION["choices"]
    aborted = answer(body={**COMPLETION, "choices": [{**choice, "finish_reason": "abort"}]})
    server.script = [aborted, answer()]
    assert chat(server.url).attempts == 2

    server.script = [aborted]
    assert cause_of(refused(server.url)) is InfrastructureCause.RESET


def test_a_timed_out_request_is_retried(server: ScriptedServer) -> None:
    server.script = [hang, answer()]

    assert run_advancing_clock(ask(server.url), lambda: server.requests).attempts == 2


def test_repeated_timeouts_fail_without_a_status(server: ScriptedServer) -> None:
    server.script = [hang]

    error = refused(server.url, timeout=0.05)

    assert (error.transient, error.status, error.attempts) == (True, None, 3)
    assert "did not answer within" in error.message


@pytest.mark.parametrize("value", ["0", "Wed, 21 Oct 2015 07:28:00 GMT"])
def test_retry_after_overrides_backoff(server: ScriptedServer, value: str) -> None:
    server.script = [answer(429, {}, retry_after=value), answer()]

    assert chat(server.url, TOO_LATE).attempts == 2


def test_a_retry_after_the_deadline_is_not_attempted(server: ScriptedServer) -> None:
    server.script = [answer(429, {}, retry_after="7200")]

    error = refused(server.url)

    assert (error.status, error.transient, error.attempts) == (429, True, 1)


def test_the_number_of_attempts_is_bounded(server: ScriptedServer) -> None:
    server.script = [answer(503, {"error": {"message": "overloaded"}})]

    error = refused(server.url)

    assert (error.status, error.transient, error.attempts) == (503, True, 3)
    assert "overloaded" in error.message
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [307, 400, 401, 404, 422])
def test_a_client_error_is_not_retried(server: ScriptedServer, status: int) -> None:
    server.script = [answer(status, {"error": {"message": "the prompt is too long"}})]

    error = refused(server.url)

    assert (error.status, error.transient) == (status, False)
    assert "the prompt is too long" in error.message
    assert len(server.requests) == 1


def test_a_redirect_is_reported_with_its_target(server: ScriptedServer) -> None:
    server.script = [answer(302, b"", location="https://elsewhere/v1/chat/completions")]

    assert "it redirects to https://elsewhere/v1/" in refused(server.url).message


def test_should_retry_false_prevents_a_retry(server: ScriptedServer) -> None:
    server.script = [answer(409, {}, x_should_retry="false")]

    refused(server.url)

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "body",
    [b"<html>hello</html>", b"", b'{"choices": []}', b'{"choices": [{"message": 1}]}', b"\xff"],
)
def test_an_unreadable_response_is_retried_and_reported(
    server: ScriptedServer, body: bytes
) -> None:
    server.script = [answer(200, body)]

    error = refused(server.url)

    assert error.status == 200
    assert error.body == body.decode(errors="replace")
    assert len(server.requests) > 1


def test_an_error_body_is_truncated_and_redacted(server: ScriptedServer) -> None:
    server.script = [answer(400, b"no access with sk-secret" + b"x" * 100_000)]

    error = refused(server.url)

    assert len(error.body) == 2000
    assert "sk-secret" not in error.body + error.message


def test_an_oversized_response_is_refused(server: ScriptedServer) -> None:
    server.script = [answer(200, b"x" * (33 << 20))]

    assert "more than 32 MiB" in refused(server.url).message


def test_an_unreachable_server_is_a_transient_error() -> None:
    error = refused(f"http://127.0.0.1:{free_port()}/v1")

    assert (error.transient, error.status, error.body) == (True, None, "")


def test_loopback_requests_bypass_proxies(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    assert chat(server.url).content == "46"
