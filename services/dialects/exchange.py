"""One request of an agent and its answer, whatever dialect they were written in."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from services.contracts.base import JsonObject
from services.inference.token_engine.base import FinishReason


@dataclass(frozen=True)
class ModelRequest:
    """A conversation to continue. ``messages`` and ``tools`` are in the shape of OpenAI's chat
    completions, as chat templates read them.

    ``max_tokens`` is the agent's own bound. ``ignored`` names fields that have no effect.
    """

    messages: tuple[JsonObject, ...]
    tools: tuple[JsonObject, ...] = ()
    max_tokens: int | None = None
    stream: bool = False
    include_usage: bool = False
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """A tool call of the model."""

    id: str
    name: str
    arguments: JsonObject

    @property
    def arguments_json(self) -> str:
        """The arguments as OpenAI's dialects write them."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class ModelAnswer:
    """A turn of the model: its reasoning, its text, and its calls."""

    id: str
    content: str
    reasoning: str | None
    calls: tuple[Call, ...]
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    model: str
    created: int

    def message(self) -> JsonObject:
        """The turn as a message of a conversation."""
        message: JsonObject = {"role": "assistant", "content": self.content}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments_json},
                }
                for call in self.calls
            ]
        return message


Event = tuple[str | None, JsonObject]
"""An event of a stream: its name, if the dialect names events, and its data."""


@dataclass(frozen=True)
class Dialect:
    """The wire format of an endpoint.

    ``read`` raises InvalidRequest naming the field. ``events`` are those of a streamed answer,
    after which ``last_line`` follows.
    """

    path: str
    read: Callable[[JsonObject], ModelRequest]
    body: Callable[[ModelAnswer], JsonObject]
    events: Callable[[ModelAnswer, ModelRequest], Iterator[Event]]
    last_line: str | None = None
