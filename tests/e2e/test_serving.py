"""Requests of the openai package to a real engine, across kills of the services behind it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anthropic
import openai
import psutil
import pytest
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageFunctionToolCall,
    ChatCompletionMessageParam,
)

from services.contracts.models.registered import RegisterModel
from temper import Temper
from tests.support.models.tiny_model import make_tiny_model
from tests.support.processes import Process, free_port, is_ready, running
from tests.support.runtimes import FOLDER, installed_runtime
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(600)]

LIMIT_SECONDS = 240.0


TEMPLATE = (
    "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}"
    "{% for message in messages %}{{ message.content }}{% endfor %}"
)


class Stack:
    """A gateway and an evaluator that may be killed and restarted."""

    def __init__(self, home: Path, stack: ExitStack) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._stack = stack
        self.gateway = self.start_gateway()
        self.worker = self.start("services.evaluator")

    def start(self, module: str, *arguments: str) -> Process:
        settings = {
            "TEMPER_HOME": str(self.home),
            "TEMPER_RUNTIMES": str(FOLDER),
            "HF_HUB_OFFLINE": "1",
        }
        log = self.home / f"{module}.log"
        return self._stack.enter_context(running(module, arguments, settings, log))

    def start_gateway(self) -> Process:
        gateway = self.start("services.api", "--port", str(self.port))
        wait_for(lambda: is_ready(gateway, self.url), "the gateway is ready")
        return gateway

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(
            base_url=f"{self.url}/v1", api_key="none", max_retries=6, timeout=LIMIT_SECONDS
        )


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    installed_runtime("vllm")
    home = tmp_path_factory.mktemp("serving")
    make_tiny_model(home / "models" / "tiny")
    (home / "models" / "tiny" / "chat_template.jinja").write_text(TEMPLATE)
    with ExitStack() as processes:
        stack = Stack(home, processes)
        with Temper(stack.url) as temper:
            temper.models.register(RegisterModel(id="tiny", folder="tiny"))
        yield stack


QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "12+34="}]
WHOLE = {"ignore_eos": True}
TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "add",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"a": {"enum": [1, 2]}},
            "required": ["a"],
            "additionalProperties": False,
        },
    },
}
LOOSE_TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {}}}},
}
WRITTEN_CALL = {
    "structured_outputs": {
        "regex": r'<tool_call>\n\{"name": "add", "arguments": \{"a": 2\}\}\n</tool_call>'
    }
}
"""Forces the tiny model, which is untrained on tools, to emit a call in its template's format."""
SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"sum": {"enum": [46, 47]}},
    "required": ["sum"],
    "additionalProperties": False,
}


def ask(client: openai.OpenAI) -> str:
    answer = client.chat.completions.create(
        model="tiny", messages=QUESTION, max_tokens=8, temperature=0, extra_body=WHOLE
    )
    assert answer.choices[0].finish_reason == "length", answer
    return str(answer.choices[0].message.content)


def test_the_openai_package_gets_its_requested_outputs(stack: Stack) -> None:
    client = stack.client()

    whole = ask(client)
    chunks = list(
        client.chat.completions.create(
            model="tiny",
            messages=QUESTION,
            max_tokens=8,
            temperature=0,
            extra_body=WHOLE,
            stream=True,
            logprobs=True,
            top_logprobs=2,
            stream_options={"include_usage": True},
        )
    )
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == whole
    assert chunks[-1].usage is not None
    logged = [
        token
        for choice in choices
        if choice.logprobs is not None
        for token in choice.logprobs.content or ()
    ]
    assert logged
    assert all(len(token.top_logprobs) == 2 for token in logged)

    called = client.chat.completions.create(
        model="tiny",
        messages=QUESTION,
        max_tokens=300,
        tools=[TOOL],
        tool_choice={"type": "function", "function": {"name": "add"}},
    )
    (call,) = called.choices[0].message.tool_calls or []
    assert isinstance(call, ChatCompletionMessageFunctionToolCall)
    assert call.function.name == "add"
    assert json.loads(call.function.arguments)["a"] in (1, 2)

    automatic = client.chat.completions.create(
        model="tiny", messages=QUESTION, max_tokens=300, tools=[LOOSE_TOOL], extra_body=WRITTEN_CALL
    )
    assert automatic.choices[0].finish_reason == "tool_calls"
    (call,) = automatic.choices[0].message.tool_calls or []
    assert isinstance(call, ChatCompletionMessageFunctionToolCall)
    assert (call.function.name, json.loads(call.function.arguments)) == ("add", {"a": 2})

    streamed = [
        chunk.choices[0]
        for chunk in client.chat.completions.create(
            model="tiny",
            messages=QUESTION,
            max_tokens=300,
            tools=[LOOSE_TOOL],
            extra_body=WRITTEN_CALL,
            stream=True,
        )
        if chunk.choices
    ]
    deltas = [delta for choice in streamed for delta in choice.delta.tool_calls or ()]
    assert [d.function.name for d in deltas if d.function and d.function.name] == ["add"]
    written = "".join(d.function.arguments or "" for d in deltas if d.function)
    assert json.loads(written) == {"a": 2}
    assert streamed[-1].finish_reason == "tool_calls"

    answered = client.chat.completions.create(
        model="tiny",
        messages=QUESTION,
        max_tokens=300,
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "sum", "schema": SCHEMA, "strict": True},
        },
    )
    assert json.loads(str(answered.choices[0].message.content))["sum"] in (46, 47)

    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="tiny", messages=QUESTION, max_tokens=10**6)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="none", messages=QUESTION)

    with client.chat.completions.create(
        model="tiny",
        messages=QUESTION,
        max_tokens=100,
        stream=True,
        extra_body={"ignore_eos": True, "min_tokens": 100},
    ) as stream:
        next(iter(stream))
    assert ask(client) == whole


def test_responses_and_messages_are_answered_by_the_same_engine(stack: Stack) -> None:
    client: Any = stack.client()
    plain: Any = client.chat.completions.create(
        model="tiny", messages=QUESTION, max_tokens=8, temperature=0
    )
    said = plain.choices[0].message.content
    asked = {"model": "tiny", "input": "12+34=", "max_output_tokens": 8, "temperature": 0}

    whole = client.responses.create(**asked)
    with client.responses.stream(**asked) as events:
        deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
    later = client.responses.create(**asked, background=True)
    ended = wait_for(lambda: _ended(client, later.id), "the background response ends")
    formed = client.responses.create(
        model="tiny",
        input="12+34=",
        previous_response_id=whole.id,
        text={"format": {"type": "json_schema", "name": "sum", "schema": SCHEMA, "strict": True}},
    )
    function = {"type": "function", **TOOL["function"]}
    called = client.responses.create(
        model="tiny", input="add", tools=[function], tool_choice={"type": "function", "name": "add"}
    )

    assert (whole.output_text, "".join(deltas), ended.output_text) == (said, said, said)
    assert whole.usage.input_tokens == plain.usage.prompt_tokens
    assert json.loads(formed.output_text)["sum"] in (46, 47)
    [call] = called.output
    assert (call.type, call.name) == ("function_call", "add")
    assert json.loads(call.arguments)["a"] in (1, 2)

    messages: Any = anthropic.Anthropic(base_url=stack.url, api_key="none", timeout=LIMIT_SECONDS)
    request = {"model": "tiny", "messages": QUESTION, "extra_body": {"temperature": 0}}
    answer = messages.messages.create(**request, max_tokens=8)
    counted = messages.messages.count_tokens(model="tiny", messages=QUESTION)
    with messages.messages.stream(**request, max_tokens=8) as stream:
        streamed = stream.get_final_message()
    schema = TOOL["function"]["parameters"]
    tool = {"name": "add", "input_schema": schema, "strict": True}
    used = messages.messages.create(
        **request, max_tokens=200, tools=[tool], tool_choice={"type": "tool", "name": "add"}
    )
    assert answer.content[0].text == streamed.content[0].text == said
    assert answer.usage.input_tokens == counted.input_tokens == plain.usage.prompt_tokens
    [use] = used.content
    assert (use.type, use.name, use.input["a"] in (1, 2)) == ("tool_use", "add", True)


def _ended(client: Any, response_id: str) -> Any:
    response = client.responses.retrieve(response_id)
    return response if response.status not in ("queued", "in_progress") else None


def test_the_next_request_is_answered_after_the_gateway_and_the_worker_were_killed(
    stack: Stack,
) -> None:
    client = stack.client()
    before = ask(client)

    stack.gateway.kill()
    stack.gateway = stack.start_gateway()
    assert ask(client) == before

    children = psutil.Process(stack.worker.pid).children(recursive=True)
    stack.worker.kill()
    stack.worker = stack.start("services.evaluator")
    assert ask(client) == before
    psutil.wait_procs(children, timeout=60)
    assert not [child for child in children if child.is_running()]
