"""Anthropic's messages: POST /v1/messages."""

from collections.abc import Iterator
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.record import shown
from services.dialects.deltas import deltas_of
from services.dialects.exchange import Dialect, Event, ModelAnswer, ModelRequest
from services.dialects.fields import (
    arguments_object,
    count_field,
    function_call,
    function_tool,
    ignored,
    joined_text,
    objects,
    text_field,
    wrong,
)
from services.dialects.messages_writer import MessageWriter

SAMPLING: dict[str, tuple[Any, ...]] = {
    "temperature": (1,),
    "top_p": (1,),
    "top_k": (-1,),
    "stop_sequences": ([],),
    "thinking": ({"type": "disabled"},),
    "tool_choice": ({"type": "auto"},),
}
"""Fields that the job's own sampling replaces, with the values that change nothing."""


def _read(body: JsonObject) -> ModelRequest:
    messages: list[JsonObject] = []
    system = joined_text(body.get("system"), "system", ("text",))
    if system:
        messages.append({"role": "system", "content": system})
    for place, message in objects(body.get("messages"), "messages"):
        messages += _messages(message, place)
    if all(message["role"] == "system" for message in messages):
        raise InvalidRequest("must have at least one message", param="messages")
    return ModelRequest(
        messages=tuple(messages),
        tools=tuple(_tool(each, place) for place, each in objects(body.get("tools"), "tools")),
        max_tokens=count_field(body, "max_tokens"),
        stream=body.get("stream") is True,
        ignored=ignored(body, SAMPLING),
    )


def _messages(message: JsonObject, place: str) -> Iterator[JsonObject]:
    """A message as chat completions have it; results of tools are messages of their own there."""
    role, content = message.get("role"), message.get("content")
    if role == "assistant":
        yield _assistant(content, f"{place}.content")
        return
    if role not in ("user", "system"):
        raise InvalidRequest(f"is {shown(role)}, not user or assistant", param=f"{place}.role")
    if not isinstance(content, list):
        yield {"role": role, "content": joined_text(content, f"{place}.content", ("text",))}
        return
    texts = []
    for at, block in objects(content, f"{place}.content"):
        if block.get("type") != "tool_result":
            texts.append(_text(block, at))
            continue
        yield {
            "role": "tool",
            "tool_call_id": text_field(block, "tool_use_id", at),
            "content": joined_text(block.get("content"), f"{at}.content", ("text",)),
        }
    if texts:
        yield {"role": role, "content": "".join(texts)}


def _text(block: JsonObject, place: str) -> str:
    if block.get("type") != "text":
        kind = shown(block.get("type"))
        raise InvalidRequest(f"is of type {kind}; this model reads text", param=place)
    return text_field(block, "text", place)


def _assistant(content: Any, where: str) -> JsonObject:
    if isinstance(content, str):
        return {"role": "assistant", "content": content}
    texts, thoughts, calls = [], [], []
    for at, block in objects(content, where):
        match block.get("type"):
            case "text":
                texts.append(text_field(block, "text", at))
            case "thinking":
                thoughts.append(text_field(block, "thinking", at))
            case "tool_use":
                arguments = arguments_object(block.get("input"), f"{at}.input")
                name = text_field(block, "name", at)
                calls.append(function_call(block.get("id"), name, arguments))
            case "redacted_thinking":  # another model's, which nobody can read
                continue
            case kind:
                raise InvalidRequest(f"is of type {shown(kind)}, which is not read", param=at)
    message: JsonObject = {"role": "assistant", "content": "".join(texts)}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    return message


def _tool(tool: JsonObject, place: str) -> JsonObject:
    if tool.get("type") not in (None, "custom"):
        raise wrong(f"{place}.type", tool.get("type"), "custom: a tool runs where the agent runs")
    name = text_field(tool, "name", place)
    return function_tool(
        name, tool.get("description"), tool.get("input_schema"), tool.get("strict")
    )


def _body(answer: ModelAnswer) -> JsonObject:
    writer, _ = _written(answer)
    return writer.body()


def _events(answer: ModelAnswer, _request: ModelRequest) -> Iterator[Event]:
    _, events = _written(answer)
    yield from events


def _written(answer: ModelAnswer) -> tuple[MessageWriter, list[Event]]:
    writer = MessageWriter(answer.id, answer.model)
    events = [event for delta in deltas_of(answer) for event in writer.feed(delta)]
    return writer, [*events, *writer.end()]


MESSAGES = Dialect("/v1/messages", _read, _body, _events)
