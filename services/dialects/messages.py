"""Anthropic's messages: POST /v1/messages."""

from collections.abc import Iterator
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.record import shown
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
            texts.append(joined_text([block], f"{place}.content", ("text",)))
            continue
        yield {
            "role": "tool",
            "tool_call_id": text_field(block, "tool_use_id", at),
            "content": joined_text(block.get("content"), f"{at}.content", ("text",)),
        }
    if texts:
        yield {"role": role, "content": "".join(texts)}


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
    return function_tool(name, tool.get("description"), tool.get("input_schema"))


def _body(answer: ModelAnswer) -> JsonObject:
    return {
        **_head(answer),
        "content": list(_blocks(answer)),
        "stop_reason": _stop_reason(answer),
        "usage": _usage(answer),
    }


def _events(answer: ModelAnswer, _request: ModelRequest) -> Iterator[Event]:
    empty = {**_head(answer), "content": [], "stop_reason": None}
    begun = {"input_tokens": answer.prompt_tokens, "output_tokens": 0}
    yield "message_start", {"type": "message_start", "message": {**empty, "usage": begun}}
    for index, block in enumerate(_blocks(answer)):
        start, delta = _streamed(block)
        place = {"index": index}
        yield (
            "content_block_start",
            {"type": "content_block_start", **place, "content_block": start},
        )
        yield "content_block_delta", {"type": "content_block_delta", **place, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", **place}
    end = {"stop_reason": _stop_reason(answer), "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": _usage(answer)}
    yield "message_stop", {"type": "message_stop"}


def _streamed(block: JsonObject) -> tuple[JsonObject, JsonObject]:
    """The empty block with which a stream begins one, and all that follows as one delta."""
    match block["type"]:
        case "tool_use":
            return {**block, "input": {}}, {
                "type": "input_json_delta",
                "partial_json": function_call("", "", block["input"])["function"]["arguments"],
            }
        case "thinking":
            return {**block, "thinking": ""}, {
                "type": "thinking_delta",
                "thinking": block["thinking"],
            }
        case _:
            return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}


def _head(answer: ModelAnswer) -> JsonObject:
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "stop_sequence": None,
    }


def _blocks(answer: ModelAnswer) -> Iterator[JsonObject]:
    if answer.reasoning is not None:
        yield {"type": "thinking", "thinking": answer.reasoning, "signature": ""}
    if answer.content or not answer.calls:
        yield {"type": "text", "text": answer.content}
    for call in answer.calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}


def _stop_reason(answer: ModelAnswer) -> str:
    if answer.calls:
        return "tool_use"
    return "end_turn" if answer.finish_reason == "stop" else "max_tokens"


def _usage(answer: ModelAnswer) -> JsonObject:
    return {"input_tokens": answer.prompt_tokens, "output_tokens": answer.completion_tokens}


MESSAGES = Dialect("/v1/messages", _read, _body, _events)
