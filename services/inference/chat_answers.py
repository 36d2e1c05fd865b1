"""The answers of OpenAI-compatible servers, read as tolerantly as their servers differ.

Every client reads answers here: evaluations, batches, rollouts, judges and campaigns. An answer has
choices, or it is not an answer. Whatever else is missing or odd is read as far as it makes sense.
"""

import json
from dataclasses import dataclass
from typing import Any

from services.contracts.base import JsonObject
from services.inference.clients.retries import ABORTED, BrokenOffAnswer
from services.parsing.foreign_json import parse_foreign, storable_text

MOST_TOKENS = 10**8
"""Larger counts than any context's are no counts."""
CHARACTERS_PER_TOKEN = 4
"""To estimate tokens that a server does not count."""


@dataclass(frozen=True)
class TokenUsage:
    """Token counts of one or several answers."""

    prompt: int
    completion: int


@dataclass(frozen=True)
class ToolCall:
    """A function call; ``arguments`` is the model's text, possibly invalid JSON."""

    id: str
    name: str
    arguments: str

    def as_json(self) -> JsonObject:
        """The call in OpenAI's shape."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True)
class ChatChoice:
    """One choice of an answer."""

    content: str | None
    finish_reason: str | None
    tool_calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class ChatAnswer:
    """An answer with at least one choice; ``usage`` is None without counts that make sense.

    ``reported`` is the usage as the server reports it, whatever it holds.
    """

    choices: tuple[ChatChoice, ...]
    usage: TokenUsage | None
    reported: JsonObject | None


def read_object(body: bytes) -> JsonObject:
    """The JSON object in a successful answer; raises `ValueError` also for one that reports an
    error."""
    value = parse_foreign(body)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    if error := value.get("error"):
        message = error.get("message") if isinstance(error, dict) else error
        raise ValueError(f"the server reports an error: {message or error}")
    return value


def read_items(body: bytes, name: str) -> JsonObject:
    """Like `read_object`, for an answer whose field ``name`` lists one object or more.

    Raises `BrokenOffAnswer` if one of them was aborted.
    """
    value = read_object(body)
    items = value.get(name)
    if not isinstance(items, list) or not items:
        raise ValueError(f"{name} is missing or empty")
    if not all(isinstance(each, dict) for each in items):
        raise ValueError(f"{name} does not list objects")
    if any(each.get("finish_reason") == ABORTED for each in items):
        raise BrokenOffAnswer("the server aborted the answer")
    return value


def read_chat(body: bytes) -> ChatAnswer:
    """The answer to a request for a chat completion; raises `ValueError` saying what is wrong."""
    value = read_items(body, "choices")
    choices = tuple(_choice(each, index) for index, each in enumerate(value["choices"]))
    reported = value.get("usage")
    prompt = token_count(value, "prompt_tokens")
    completion = token_count(value, "completion_tokens")
    usage = None if prompt is None or completion is None else TokenUsage(prompt, completion)
    return ChatAnswer(choices, usage, reported if isinstance(reported, dict) else None)


def token_count(value: JsonObject, *path: str) -> int | None:
    """A count in the usage of an answer, None where there is none that makes sense."""
    found: Any = value.get("usage")
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, float) and found.is_integer():
        found = int(found)
    is_count = isinstance(found, int) and not isinstance(found, bool)
    return found if is_count and 0 <= found <= MOST_TOKENS else None


def _choice(choice: JsonObject, index: int) -> ChatChoice:
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ValueError(f"choices.{index} has no message")
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError(f"choices.{index}.message.tool_calls is not a list")
    reason = choice.get("finish_reason")
    return ChatChoice(
        content=_text(message.get("content"), f"choices.{index}.message.content"),
        finish_reason=reason if isinstance(reason, str) else None,
        tool_calls=tuple(_call(each, number) for number, each in enumerate(calls)),
    )


def _text(content: Any, where: str) -> str | None:
    """The text of a message: of its parts, where it comes in parts."""
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise ValueError(f"{where} is not text")
    parts = [part.get("text") if isinstance(part, dict) else part for part in content]
    return "".join(part for part in parts if isinstance(part, str))


def _call(call: Any, number: int) -> ToolCall:
    function: Any = call.get("function") if isinstance(call, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise ValueError(f"tool call {number} names no function")
    own = call.get("id")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(
        own if isinstance(own, str) and own else f"call_{number}", name, storable_text(arguments)
    )
