"""OpenAI's responses: POST /v1/responses. A session keeps no responses: the agent sends the whole
input each time, as `store: false` clients do."""

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
    "tool_choice": ("auto",),
    "text": ({"format": {"type": "text"}},),
    "truncation": ("disabled",),
}
"""Fields that the job's own sampling replaces, with the values that change nothing."""

_TEXT = ("input_text", "output_text", "text")
_ROLES = ("system", "developer", "user", "assistant")


def _read(body: JsonObject) -> ModelRequest:
    for name in ("previous_response_id", "conversation", "prompt"):
        if body.get(name) is not None:
            raise InvalidRequest("is not kept by a session: send the whole input", param=name)
    if body.get("background") is True:
        raise InvalidRequest("must be false: a session answers at once", param="background")
    messages: list[JsonObject] = []
    if body.get("instructions"):
        messages.append({"role": "system", "content": text_field(body, "instructions", "")})
    given = body.get("input")
    if isinstance(given, str):
        messages.append({"role": "user", "content": given})
    else:
        messages += _turns(given)
    if all(message["role"] == "system" for message in messages):
        raise InvalidRequest("must have at least one message", param="input")
    return ModelRequest(
        messages=tuple(messages),
        tools=tuple(_tool(each, place) for place, each in objects(body.get("tools"), "tools")),
        max_tokens=count_field(body, "max_output_tokens"),
        stream=body.get("stream") is True,
        ignored=ignored(body, SAMPLING),
    )


def _turns(items: Any) -> Iterator[JsonObject]:
    """Messages; the reasoning, text and calls of one turn of the model are one message."""
    turn: JsonObject | None = None
    for place, item in objects(items, "input"):
        part = _part_of_turn(item, place)
        if part is None:
            if turn is not None:
                yield turn
            turn = None
            yield _other(item, place)
        else:
            turn = _merged(turn or {"role": "assistant", "content": ""}, part)
    if turn is not None:
        yield turn


def _part_of_turn(item: JsonObject, place: str) -> JsonObject | None:
    """What an item adds to a turn of the model; None for an item of somebody else."""
    match item.get("type", "message"):
        case "message" if item.get("role") == "assistant":
            return {"content": joined_text(item.get("content"), f"{place}.content", _TEXT)}
        case "reasoning":
            parts = item.get("content") or item.get("summary")
            kinds = ("reasoning_text", "summary_text")
            return {"reasoning_content": joined_text(parts, f"{place}.content", kinds)}
        case "function_call":
            name = text_field(item, "name", place)
            arguments = arguments_object(item.get("arguments"), f"{place}.arguments")
            return {"tool_calls": [function_call(item.get("call_id"), name, arguments)]}
    return None


def _merged(turn: JsonObject, part: JsonObject) -> JsonObject:
    added = {name: turn[name] + value if name in turn else value for name, value in part.items()}
    return {**turn, **added}


def _other(item: JsonObject, place: str) -> JsonObject:
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "function_call_output":
        return {
            "role": "tool",
            "tool_call_id": text_field(item, "call_id", place),
            "content": joined_text(item.get("output"), f"{place}.output", _TEXT),
        }
    if kind != "message":
        raise InvalidRequest(f"is {shown(kind)}, which is not read", param=f"{place}.type")
    if role not in _ROLES:
        raise InvalidRequest(
            f"is {shown(role)}, not one of {', '.join(_ROLES)}", param=f"{place}.role"
        )
    return {
        "role": "system" if role == "developer" else role,
        "content": joined_text(item.get("content"), f"{place}.content", _TEXT),
    }


def _tool(tool: JsonObject, place: str) -> JsonObject:
    if tool.get("type") != "function":
        raise wrong(f"{place}.type", tool.get("type"), "function: a tool runs where the agent runs")
    name = text_field(tool, "name", place)
    return function_tool(name, tool.get("description"), tool.get("parameters"))


def _body(answer: ModelAnswer) -> JsonObject:
    is_cut = answer.finish_reason == "length"
    return {
        **_head(answer),
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "output": list(_items(answer)),
        "usage": {
            "input_tokens": answer.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": answer.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.prompt_tokens + answer.completion_tokens,
        },
    }


def _events(answer: ModelAnswer, _request: ModelRequest) -> Iterator[Event]:
    for number, (name, data) in enumerate(_unnumbered(answer)):
        yield name, {"type": name, "sequence_number": number, **data}


def _unnumbered(answer: ModelAnswer) -> Iterator[tuple[str, JsonObject]]:
    begun = {**_head(answer), "status": "in_progress", "output": []}
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for index, item in enumerate(_items(answer)):
        place = {"item_id": item["id"], "output_index": index}
        started = {**item, "status": "in_progress"}
        match item["type"]:
            case "message":
                part = item["content"][0]
                within = {**place, "content_index": 0}
                yield (
                    "response.output_item.added",
                    {
                        "output_index": index,
                        "item": {**started, "content": []},
                    },
                )
                yield "response.content_part.added", {**within, "part": {**part, "text": ""}}
                yield (
                    "response.output_text.delta",
                    {**within, "delta": part["text"], "logprobs": []},
                )
                yield "response.output_text.done", {**within, "text": part["text"], "logprobs": []}
                yield "response.content_part.done", {**within, "part": part}
            case "function_call":
                yield (
                    "response.output_item.added",
                    {
                        "output_index": index,
                        "item": {**started, "arguments": ""},
                    },
                )
                arguments = item["arguments"]
                yield "response.function_call_arguments.delta", {**place, "delta": arguments}
                yield (
                    "response.function_call_arguments.done",
                    {
                        **place,
                        "name": item["name"],
                        "arguments": arguments,
                    },
                )
            case _:
                yield "response.output_item.added", {"output_index": index, "item": started}
        yield "response.output_item.done", {"output_index": index, "item": item}
    whole = _body(answer)
    yield f"response.{whole['status']}", {"response": whole}


def _head(answer: ModelAnswer) -> JsonObject:
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": answer.created,
        "model": answer.model,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "store": False,
        "temperature": None,
        "top_p": None,
        "tool_choice": "auto",
        "tools": [],
    }


def _items(answer: ModelAnswer) -> Iterator[JsonObject]:
    if answer.reasoning is not None:
        yield {
            "id": f"rs_{answer.id}",
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": answer.reasoning}],
            "status": "completed",
        }
    if answer.content or not answer.calls:
        part = {"type": "output_text", "text": answer.content, "annotations": [], "logprobs": []}
        yield {
            "id": f"msg_{answer.id}",
            "type": "message",
            "role": "assistant",
            "content": [part],
            "status": "completed",
        }
    for number, call in enumerate(answer.calls):
        yield {
            "id": f"fc_{answer.id}_{number}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments_json,
            "status": "completed",
        }


RESPONSES = Dialect("/v1/responses", _read, _body, _events)
