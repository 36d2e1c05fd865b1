"""OpenAI's chat completions: POST /v1/chat/completions."""

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
    "min_p": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "seed": (),
    "stop": ([],),
    "tool_choice": ("auto",),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
}
"""Fields that the job's own sampling replaces, with the values that change nothing."""

_ROLES = ("system", "developer", "user", "assistant", "tool")
_FINISH = {"stop": "stop", "length": "length"}


def _read(body: JsonObject) -> ModelRequest:
    if body.get("n") not in (None, 1):
        raise InvalidRequest("must be 1: a session records one answer to each request", param="n")
    messages = tuple(
        _message(each, place) for place, each in objects(body.get("messages"), "messages")
    )
    if not messages:
        raise InvalidRequest("must have at least one message", param="messages")
    options = body.get("stream_options")
    return ModelRequest(
        messages=messages,
        tools=tuple(_tool(each, place) for place, each in objects(body.get("tools"), "tools")),
        max_tokens=count_field(body, "max_completion_tokens") or count_field(body, "max_tokens"),
        stream=body.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        ignored=ignored(body, SAMPLING),
    )


def _message(message: JsonObject, place: str) -> JsonObject:
    role = message.get("role")
    if role not in _ROLES:
        raise InvalidRequest(
            f"is {shown(role)}, not one of {', '.join(_ROLES)}", param=f"{place}.role"
        )
    where = f"{place}.content"
    plain: JsonObject = {
        "role": "system" if role == "developer" else role,
        "content": joined_text(message.get("content"), where, ("text",)),
    }
    if role == "assistant":
        calls = [
            _call(each, at)
            for at, each in objects(message.get("tool_calls"), f"{place}.tool_calls")
        ]
        if calls:
            plain["tool_calls"] = calls
        thought = message.get("reasoning_content") or message.get("reasoning")
        if isinstance(thought, str):
            plain["reasoning_content"] = thought
    if role == "tool":
        plain["tool_call_id"] = text_field(message, "tool_call_id", place)
    return plain


def _call(call: JsonObject, place: str) -> JsonObject:
    function = call.get("function")
    if not isinstance(function, dict):
        raise wrong(f"{place}.function", function, "an object")
    name = text_field(function, "name", f"{place}.function")
    arguments = arguments_object(function.get("arguments"), f"{place}.function.arguments")
    return function_call(call.get("id"), name, arguments)


def _tool(tool: JsonObject, place: str) -> JsonObject:
    if tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
        raise wrong(place, tool, "a tool of type function")
    text_field(tool["function"], "name", f"{place}.function")
    return {"type": "function", "function": tool["function"]}


def _body(answer: ModelAnswer) -> JsonObject:
    choice = {
        "index": 0,
        "message": {**answer.message(), "content": answer.content or None},
        "logprobs": None,
        "finish_reason": _finish(answer),
    }
    return {**_head(answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)}


def _events(answer: ModelAnswer, request: ModelRequest) -> Iterator[Event]:
    head = _head(answer, "chat.completion.chunk")

    def chunk(delta: JsonObject, finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return None, {**head, "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    if answer.reasoning:
        yield chunk({"reasoning_content": answer.reasoning})
    if answer.content:
        yield chunk({"content": answer.content})
    for number, call in enumerate(answer.message().get("tool_calls", ())):
        yield chunk({"tool_calls": [{"index": number, **call}]})
    yield chunk({}, _finish(answer))
    if request.include_usage:
        yield None, {**head, "choices": [], "usage": _usage(answer)}


def _head(answer: ModelAnswer, kind: str) -> JsonObject:
    identity = f"chatcmpl-{answer.id}"
    return {"id": identity, "object": kind, "created": answer.created, "model": answer.model}


def _finish(answer: ModelAnswer) -> str:
    return "tool_calls" if answer.calls else _FINISH[answer.finish_reason]


def _usage(answer: ModelAnswer) -> JsonObject:
    prompt, completion = answer.prompt_tokens, answer.completion_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


CHAT_COMPLETIONS = Dialect("/v1/chat/completions", _read, _body, _events, last_line="[DONE]")
