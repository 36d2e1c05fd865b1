"""Chat completions through the gateway, with the unmodified ``openai`` package."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpx
import openai
import pytest
from openai.types.chat import ChatCompletion

from tests.support.engines.serving_worker import RunningServing, ServingWorker
from tests.support.engines.stand_in import KEY

STEP_SECONDS = 60.0
Meanwhile = Callable[[Callable[[], Any]], Future[Any]]


def ask(client: openai.OpenAI, prompt: str, model: str = "base") -> ChatCompletion:
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": prompt}]
    )


@pytest.fixture
def serving(client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile) -> RunningServing:
    """The serving of ``base``, which a first request has started."""
    first = meanwhile(lambda: ask(client, "hello"))
    serving = worker.serve_next()
    assert first.result(STEP_SECONDS).choices[0].message.content == "echo: hello"
    return serving


def test_the_first_request_starts_the_engine_and_is_answered_by_it(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    answer = ask(client, "again")

    assert (answer.model, answer.choices[0].message.content) == ("base", "echo: again")
    assert answer.usage is not None
    assert answer.usage.total_tokens == 5
    assert serving.claim.job.request["model"] == "base"
    assert serving.engine.keys == {f"Bearer {KEY}"}


def test_a_stream_arrives_unchanged(serving: RunningServing, url: str) -> None:
    body = {"model": "base", "messages": [{"role": "user", "content": "go"}], "stream": True}
    through = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60)
    direct = httpx.post(f"{serving.engine.url}/v1/chat/completions", json=body, timeout=60)

    assert through.content == direct.content
    assert through.headers["content-type"] == "text/event-stream"
    assert through.content.endswith(b"data: [DONE]\n\n")


def test_a_stream_is_read_token_by_token(serving: RunningServing, client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="base", messages=[{"role": "user", "content": "wait"}], stream=True
    )

    first = next(iter(stream))

    assert first.choices[0].delta.content == "one "  # the engine is still generating
    stream.close()
    assert serving.engine.hung_up.wait(STEP_SECONDS)  # and stops when the client disconnects


def test_tools_reach_the_engine_and_calls_are_returned(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    answer = client.chat.completions.create(
        model="base",
        messages=[{"role": "user", "content": "what time is it?"}],
        tools=[{"type": "function", "function": {"name": "clock", "parameters": {}}}],
        tool_choice="auto",
        logprobs=True,
        seed=7,
        response_format={"type": "json_object"},
    )

    assert answer.choices[0].message.tool_calls is not None
    assert answer.choices[0].finish_reason == "tool_calls"
    sent = serving.engine.bodies[-1]
    assert sent["tools"][0]["function"]["name"] == "clock"
    assert (sent["seed"], sent["logprobs"], sent["response_format"]) == (
        7,
        True,
        {"type": "json_object"},
    )


def test_text_completions_are_answered_too(serving: RunningServing, client: openai.OpenAI) -> None:
    assert client.completions.create(model="base", prompt="hi").choices[0].text == "echo: hi"


def test_errors_of_the_engine_keep_their_class(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    with pytest.raises(openai.BadRequestError, match="cannot answer this"):
        ask(client, "refuse")


def test_a_request_that_cannot_be_served_says_why(client: openai.OpenAI, url: str) -> None:
    with pytest.raises(openai.NotFoundError, match="no model 'absent'"):
        ask(client, "hi", "absent")
    no_model = httpx.post(f"{url}/v1/chat/completions", json={"messages": []}, timeout=60)
    no_json = httpx.post(f"{url}/v1/chat/completions", content=b"{", timeout=60)
    assert (no_model.status_code, no_model.json()["error"]["param"]) == (400, "model")
    assert (no_json.status_code, no_json.json()["error"]["message"]) == (
        400,
        "the body is not JSON",
    )


def test_a_partial_response_is_not_mistaken_for_a_complete_one(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    stream = client.chat.completions.create(
        model="base", messages=[{"role": "user", "content": "half"}], stream=True
    )

    with pytest.raises((openai.APIError, httpx.HTTPError)):
        list(stream)


def test_a_request_that_kills_engines_is_not_resent_forever(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    with pytest.raises(openai.APIStatusError):
        ask(client, "die")

    requests = [body for body in serving.engine.bodies if body["messages"][-1]["content"] == "die"]
    assert 1 <= len(requests) <= 3
