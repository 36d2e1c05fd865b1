"""OpenAI's responses: POST /v1/responses. A session keeps no responses: the agent sends the whole
input each time, as `store: false` clients do."""

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
from services.dialects.responses_writer import ResponseWriter

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
        messages += messages_of(given)
    if all(message["role"] == "system" for message in messages):
        raise InvalidRequest("must have at least one message", param="input")
    return ModelRequest(
        messages=tuple(messages),
        tools=tuple(_tool(each, place) for place, each in objects(body.get("tools"), "tools")),
        max_tokens=count_field(body, "max_output_tokens"),
        stream=body.get("stream") is True,
        ignored=ignored(body, SAMPLING),
    )


def messages_of(items: Any) -> Iterator[JsonObject]:
    """The messages of a list of items; raises InvalidRequest. The reasoning, text and calls of one
    turn of the model are one message."""
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
    return function_tool(name, tool.get("description"), tool.get("parameters"), tool.get("strict"))


def _body(answer: ModelAnswer) -> JsonObject:
    writer, _ = _written(answer)
    return writer.body(*_end(answer))


def _events(answer: ModelAnswer, _request: ModelRequest) -> Iterator[Event]:
    _, events = _written(answer)
    yield from events


def _written(answer: ModelAnswer) -> tuple[ResponseWriter, list[Event]]:
    writer = ResponseWriter(response_head(f"resp_{answer.id}", answer.model, answer.created))
    events = list(writer.begin())
    for delta in deltas_of(answer):
        events += writer.feed(delta)
    events += writer.end_turn()
    status, error, reason = _end(answer)
    return writer, [*events, *writer.end(status, error=error, reason=reason)]


def _end(answer: ModelAnswer) -> tuple[str, None, str | None]:
    is_cut = answer.finish_reason == "length"
    return ("incomplete", None, "max_output_tokens") if is_cut else ("completed", None, None)


def response_head(identity: str, model: str, created: float) -> JsonObject:
    """The fields of a response that do not change, as they are without any setting."""
    return {
        "id": identity,
        "object": "response",
        "created_at": created,
        "model": model,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "store": False,
        "temperature": None,
        "top_p": None,
        "tool_choice": "auto",
        "tools": [],
    }


RESPONSES = Dialect("/v1/responses", _read, _body, _events)
