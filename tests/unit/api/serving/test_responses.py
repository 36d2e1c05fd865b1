"""OpenAI's responses through the gateway, with the unmodified ``openai`` package."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpx
import openai
import pytest
from openai.types.responses import Response

from services.core.web.auth import hash_key
from tests.support.engines.serving_worker import RunningServing, ServingWorker
from tests.support.waiting import wait_for

STEP_SECONDS = 60.0
KEY, OTHER = "sk-test-responses", "sk-test-other"
TOOL: Any = {"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}
Meanwhile = Callable[[Callable[[], Any]], Future[Any]]

pytestmark = pytest.mark.parametrize("url", [KEY], indirect=True)


@pytest.fixture
def settings() -> dict[str, Any]:
    """A gateway with two keys."""
    hashes = [hash_key(KEY), hash_key(OTHER)]
    return {"serving_wait_seconds": 60.0, "api_key_hashes": hashes}


@pytest.fixture
def client(url: str) -> Any:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        yield client


@pytest.fixture
def serving(client: openai.OpenAI, worker: ServingWorker, meanwhile: Meanwhile) -> RunningServing:
    """The serving of ``base``, which a first request has started."""
    first = meanwhile(lambda: ask(client, "hello", store=False))
    serving = worker.serve_next()
    assert first.result(STEP_SECONDS).output_text == "echo: hello"
    return serving


def ask(client: openai.OpenAI, prompt: Any, **fields: Any) -> Response:
    response: Response = client.responses.create(model="base", input=prompt, **fields)
    return response


def ended(client: openai.OpenAI, response_id: str) -> Response:
    """A response once it has ended."""

    def probe() -> Response | None:
        found = client.responses.retrieve(response_id)
        return None if found.status in ("queued", "in_progress") else found

    return wait_for(probe, "the response has ended", STEP_SECONDS)


def texts(body: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in body["messages"]]


def test_a_response_is_stored_and_continued(serving: RunningServing, client: openai.OpenAI) -> None:
    first = ask(client, "again", instructions="Be short.", metadata={"team": "a"}, temperature=0.5)
    with client.responses.stream(
        model="base", input="more", previous_response_id=first.id
    ) as events:
        numbers = [event.sequence_number for event in events]
        second = events.get_final_response()

    assert (first.status, first.output_text, first.temperature) == ("completed", "echo: again", 0.5)
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.output_tokens) == (3, 2)
    assert second.output_text == "one two"
    assert numbers == list(range(len(numbers)))
    assert texts(serving.engine.bodies[-2])[0] == ("system", "Be short.")
    said = [("user", "again"), ("assistant", "echo: again"), ("user", "more")]
    assert texts(serving.engine.bodies[-1]) == said  # instructions are not passed on
    kept = client.responses.retrieve(second.id)
    assert (kept.output_text, kept.previous_response_id) == ("one two", first.id)
    assert client.responses.retrieve(first.id).metadata == {"team": "a"}
    [item] = client.responses.input_items.list(second.id).data
    assert item.model_dump()["content"][0]["text"] == "more"

    client.responses.delete(first.id)

    for lost in (
        lambda: client.responses.retrieve(first.id),
        lambda: client.responses.delete(first.id),
    ):
        with pytest.raises(openai.NotFoundError):
            lost()
    with pytest.raises(openai.NotFoundError, match=first.id):
        ask(client, "on", previous_response_id=second.id)


def test_a_function_is_called_and_its_result_read(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    called = ask(client, '{"a": 1}', tools=[TOOL], tool_choice="required")
    [call] = called.output
    assert call.type == "function_call"
    assert (call.name, call.arguments) == ("add", '{"a": 1}')
    result: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "3"}]

    said = ask(client, result, previous_response_id=called.id, tools=[TOOL])

    assert said.output_text == "echo: 3"
    roles = [message["role"] for message in serving.engine.bodies[-1]["messages"]]
    assert roles == ["user", "assistant", "tool"]


def test_a_response_belongs_to_its_key(
    serving: RunningServing, client: openai.OpenAI, url: str
) -> None:
    mine = ask(client, "mine", background=True)
    with openai.OpenAI(base_url=f"{url}/v1", api_key=OTHER, max_retries=0) as other:
        for attempt in (
            lambda: other.responses.retrieve(mine.id),
            lambda: other.responses.cancel(mine.id),
            lambda: other.responses.delete(mine.id),
            lambda: other.responses.input_items.list(mine.id),
            lambda: ask(other, "yours", previous_response_id=mine.id),
        ):
            with pytest.raises(openai.NotFoundError):
                attempt()
    assert ended(client, mine.id).output_text == "echo: mine"


def test_a_background_response_is_followed_from_any_event(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    stream = client.responses.create(model="base", input="go", background=True, stream=True)
    events: list[Any] = list(stream)
    last = events[-1]
    again = list(client.responses.retrieve(last.response.id, stream=True, starting_after=2))

    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert last.type == "response.completed"
    assert last.response.output_text == "one two"
    assert [event.sequence_number for event in again] == list(range(3, len(events)))
    assert client.responses.retrieve(last.response.id).output == last.response.output
    plain = ask(client, "plain", background=True)
    assert plain.status == "queued"
    assert ended(client, plain.id).output_text == "echo: plain"
    with pytest.raises(openai.BadRequestError, match="stream"):
        client.responses.retrieve(plain.id, stream=True)


def test_a_background_response_is_cancelled_or_deleted_while_it_runs(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    def begun() -> str:
        stream = client.responses.create(model="base", input="wait", background=True, stream=True)
        events: Any = iter(stream)
        identity = str(next(events).response.id)
        assert any(event.type == "response.output_text.delta" for event in events)
        stream.close()
        return identity

    first = begun()
    once, twice = client.responses.cancel(first), client.responses.cancel(first)

    assert (once.status, twice.status) == ("cancelled", "cancelled")
    assert serving.engine.hung_up.wait(STEP_SECONDS)
    assert client.responses.retrieve(first).status == "cancelled"
    serving.engine.hung_up.clear()

    second = begun()
    client.responses.delete(second)

    assert serving.engine.hung_up.wait(STEP_SECONDS)
    with pytest.raises(openai.NotFoundError):
        client.responses.cancel(second)


def test_an_engine_that_dies_is_waited_for_in_the_background_only(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    with client.responses.stream(model="base", input="half") as events:
        last = list(events)[-1]
    failed = ended(client, ask(client, "half", background=True, stream=False, store=True).id)
    lost: Any = list(
        client.responses.create(model="base", input="half", background=True, stream=True)
    )

    assert last.type == "response.failed"
    assert failed.output_text == "echo: half"  # whole answers are not cut in half
    assert lost[-1].type == "response.failed"
    assert lost[-1].response.error.code == "engine_died"
    assert len([b for b in serving.engine.bodies if b.get("stream")]) == 1 + 4  # it was repeated
    starts = [event.type for event in lost].count("response.in_progress")
    assert starts == 4


def test_a_client_that_hangs_up_ends_its_response(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    stream = client.responses.create(model="base", input="wait", stream=True)
    begun: Any = next(iter(stream))
    stream.close()

    assert serving.engine.hung_up.wait(STEP_SECONDS)
    assert ended(client, begun.response.id).status == "cancelled"


def test_a_hundred_background_responses_are_answered_once_each(
    serving: RunningServing, client: openai.OpenAI
) -> None:
    ids = [ask(client, f"number {n}", background=True).id for n in range(100)]

    answers = [ended(client, each).output_text for each in ids]

    assert answers == [f"echo: number {n}" for n in range(100)]
    prompts = [body["messages"][-1]["content"] for body in serving.engine.bodies]
    assert sorted(prompts[-100:]) == sorted(f"number {n}" for n in range(100))


def test_a_request_that_cannot_be_answered_names_the_field(client: openai.OpenAI, url: str) -> None:
    image = [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("input[0].content[0]", {"input": image}),
        ("input[0].role", {"input": [{"role": "robot", "content": "x"}]}),
        ("input", {"input": []}),
        ("max_output_tokens", {"max_output_tokens": 0}),
        ("temperature", {"temperature": "hot"}),
        ("tools[0].type", {"tools": [{"type": "web_search"}]}),
        ("tools[0].name", {"tools": [{"type": "function"}]}),
        ("tool_choice", {"tools": [TOOL], "tool_choice": "often"}),
        ("text.format.type", {"text": {"format": {"type": "xml"}}}),
        ("conversation", {"conversation": "conv_1"}),
        ("store", {"background": True, "store": False}),
        ("truncation", {"truncation": "auto"}),
        ("metadata", {"metadata": {"k": "v" * 1000}}),
        ("previous_response_id", {"previous_response_id": "resp_absent"}),
        ("model", {"model": "absent"}),
    ]
    headers = {"Authorization": f"Bearer {KEY}"}
    for param, fields in wrong:
        body = {"model": "base", "input": "hello", **fields}
        answer = httpx.post(f"{url}/v1/responses", json=body, headers=headers, timeout=60)
        assert answer.status_code in (400, 404), (param, answer.text)
        assert answer.json()["error"]["param"] == param, answer.text
