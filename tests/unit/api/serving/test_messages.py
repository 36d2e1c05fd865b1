"""Anthropic's messages through the gateway, with the unmodified ``anthropic`` package."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import httpx
import pytest
from anthropic import (
    Anthropic,
    APIError,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
)
from anthropic.types import Message

from services.core.web.auth import hash_key
from tests.support.engines.serving_worker import RunningServing, ServingWorker

STEP_SECONDS = 60.0
KEY = "sk-test-messages"
TOOL: Any = {"name": "add", "input_schema": {"type": "object", "properties": {}}}
Meanwhile = Callable[[Callable[[], Any]], Future[Any]]

pytestmark = pytest.mark.parametrize("url", [KEY], indirect=True)


@pytest.fixture
def settings() -> dict[str, Any]:
    """A gateway with a key."""
    return {"serving_wait_seconds": 60.0, "api_key_hashes": [hash_key(KEY)]}


@pytest.fixture
def claude(url: str) -> Iterator[Anthropic]:
    with Anthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def serving(claude: Anthropic, worker: ServingWorker, meanwhile: Meanwhile) -> RunningServing:
    """The serving of ``base``, which a first request has started."""
    first = meanwhile(lambda: ask(claude, "hello"))
    serving = worker.serve_next()
    assert first.result(STEP_SECONDS).content[0].text == "echo: hello"
    return serving


def ask(client: Anthropic, prompt: str, **fields: Any) -> Message:
    asked = {"model": "base", "max_tokens": 100, **fields}
    message: Message = client.messages.create(
        messages=[{"role": "user", "content": prompt}], **asked
    )
    return message


def stream(client: Anthropic, prompt: str, **fields: Any) -> Message:
    turns: Any = [{"role": "user", "content": prompt}]
    with client.messages.stream(model="base", max_tokens=100, messages=turns, **fields) as events:
        return events.get_final_message()


def test_a_message_is_the_same_whole_and_streamed(
    serving: RunningServing, claude: Anthropic, url: str
) -> None:
    whole = ask(
        claude, "again", stop_sequences=["!"], extra_body={"temperature": 0.5}, system="Be short."
    )
    streamed = stream(claude, "again")

    assert (whole.model, whole.stop_reason, whole.role) == ("base", "end_turn", "assistant")
    assert [block.type for block in whole.content] == ["text"]
    assert (whole.usage.input_tokens, whole.usage.output_tokens) == (3, 2)
    assert streamed.content[0].text == "one two"  # type: ignore[union-attr]  # the first block is text, or a call
    assert (streamed.stop_reason, streamed.usage.output_tokens) == ("end_turn", 2)
    sent = serving.engine.bodies[-2]
    assert (sent["stop"], sent["temperature"], sent["max_tokens"]) == (["!"], 0.5, 100)
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]
    used = httpx.get(f"{url}/v1/usage", headers={"x-api-key": KEY}, timeout=60)
    assert used.status_code == 200


@pytest.mark.parametrize("answer", [ask, stream])
def test_a_tool_is_called_and_its_result_read(
    serving: RunningServing, claude: Anthropic, answer: Callable[..., Message]
) -> None:
    called = answer(claude, '{"a": 1}', tools=[TOOL], tool_choice={"type": "any"})

    call = called.content[-1]
    assert (called.stop_reason, call.type) == ("tool_use", "tool_use")
    assert (call.name, call.input) == ("add", {"a": 1})  # type: ignore[union-attr]  # the first block is text, or a call
    assert serving.engine.bodies[-1]["tool_choice"] == "required"
    turns: Any = [
        {"role": "user", "content": "add"},
        {"role": "assistant", "content": [block.model_dump() for block in called.content]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": call.id, "content": "3"},  # type: ignore[union-attr]  # the first block is text, or a call
            ],
        },
    ]
    counted = claude.messages.count_tokens(model="base", messages=turns, tools=[TOOL])
    said = claude.messages.create(model="base", max_tokens=9, messages=turns, tools=[TOOL])

    assert counted.input_tokens == 4  # three messages and a tool
    assert said.content[0].text == "echo: 3"  # type: ignore[union-attr]  # the first block is text, or a call


def test_a_turn_that_has_begun_is_continued(serving: RunningServing, claude: Anthropic) -> None:
    turns: Any = [
        {"role": "user", "content": "2 + 2?"},
        {"role": "system", "content": "Later."},
        {"role": "assistant", "content": "It is"},
    ]
    system: Any = [
        {"type": "text", "text": "x-anthropic-billing-header: cch=1"},
        {"type": "text", "text": "First."},
    ]
    claude.messages.create(model="base", max_tokens=9, messages=turns, system=system)

    sent = serving.engine.bodies[-1]
    assert (sent["continue_final_message"], sent["add_generation_prompt"]) == (True, False)
    assert sent["messages"][0] == {"role": "system", "content": "First.\n\nLater."}
    assert sent["messages"][-1]["content"] == "It is"


def test_a_request_that_cannot_be_answered_names_the_field(
    claude: Anthropic, url: str, serving: RunningServing
) -> None:
    image: Any = [{"type": "text", "text": "what?"}, {"type": "image", "source": {}}]
    wrong: list[tuple[str, dict[str, Any]]] = [
        (r"messages\[0\].content\[1\]: is of type 'image'", {"content": image}),
        ("max_tokens: is missing", {"max_tokens": None}),
        ("max_tokens: is 0", {"max_tokens": 0}),
        ("tool_choice.type: is 'often'", {"tool_choice": {"type": "often"}}),
        (r"tools\[0\].type", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
        ("model: is", {"model": 7}),
        ("mcp_servers", {"mcp_servers": [{"url": "http://127.0.0.1"}]}),
    ]
    for message, fields in wrong:
        turn = {"role": "user", "content": fields.pop("content", "hello")}
        asked = {"model": "base", "max_tokens": 9, "messages": [turn], **fields}
        with pytest.raises(BadRequestError, match=message):
            claude.post("/v1/messages", body=asked, cast_to=object)
    with pytest.raises(BadRequestError, match="cannot answer this"):
        ask(claude, "refuse")  # the engine's own refusal
    with pytest.raises(NotFoundError, match="no model 'absent'"):
        ask(claude, "hello", model="absent")
    with (
        Anthropic(base_url=url, api_key="sk-unknown", max_retries=0) as stranger,
        pytest.raises(AuthenticationError, match="unknown API key"),
    ):
        ask(stranger, "hello")


def test_an_engine_that_dies_ends_the_stream_with_an_error(
    serving: RunningServing, claude: Anthropic
) -> None:
    with pytest.raises(APIError, match="broke off its answer"):
        stream(claude, "half")
    with pytest.raises(APIError, match="broke off its answer"):
        stream(claude, "abort")  # not a message that is complete


def test_a_client_that_hangs_up_ends_the_generation(
    serving: RunningServing, claude: Anthropic
) -> None:
    with claude.messages.stream(
        model="base", max_tokens=9, messages=[{"role": "user", "content": "wait"}]
    ) as events:
        assert next(iter(events.text_stream)) == "one "

    assert serving.engine.hung_up.wait(STEP_SECONDS)
