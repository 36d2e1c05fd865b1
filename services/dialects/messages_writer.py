"""Writes a turn of a model as Anthropic's messages: events of a stream, and the whole message."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.dialects.deltas import CallDelta, Delta, TurnUsage
from services.dialects.exchange import Event
from services.dialects.fields import arguments_object


@dataclass
class _Block:
    """A content block that grows."""

    index: int
    value: JsonObject
    pieces: list[str] = field(default_factory=list)

    def finished(self) -> JsonObject:
        """The block with all that arrived. Arguments that were cut off are no object: such a call
        has an empty input, and the message's stop_reason says why."""
        text = "".join(self.pieces)
        if self.value["type"] != "tool_use":
            return {**self.value, self.value["type"]: text}
        try:
            return {**self.value, "input": arguments_object(text, "input")}
        except InvalidRequest:
            return self.value


class MessageWriter:
    """Writes one turn. `feed` every delta, then `end`; `body` is the whole message then."""

    def __init__(self, identity: str, model: str) -> None:
        self._id = f"msg_{identity}"
        self._model = model
        self._begun = False
        self._blocks: list[JsonObject] = []
        self._open: _Block | None = None
        self._call: int | None = None
        self._usage = TurnUsage()
        self._finish: str | None = None
        self._stop_sequence: str | None = None

    def feed(self, delta: Delta) -> Iterator[Event]:
        """The events of the next delta."""
        if delta.usage is not None:
            self._usage = delta.usage
        if not self._begun:
            self._begun = True
            start = self._message([], None)
            yield "message_start", {"type": "message_start", "message": start}
            yield "ping", {"type": "ping"}
        if delta.reasoning:
            block = {"type": "thinking", "thinking": "", "signature": ""}
            yield from self._grow(block, "thinking_delta", "thinking", delta.reasoning)
        if delta.content:
            block = {"type": "text", "text": ""}
            yield from self._grow(block, "text_delta", "text", delta.content)
        for call in delta.calls:
            yield from self._grow_call(call)
        self._finish = delta.finish_reason or self._finish
        self._stop_sequence = delta.stop_sequence or self._stop_sequence

    def end(self) -> Iterator[Event]:
        """The events after the last delta."""
        if self._open is None and not self._blocks:  # clients expect at least one block
            yield from self._begin({"type": "text", "text": ""})
        yield from self._stop()
        change = {"stop_reason": self._stop_reason(), "stop_sequence": self._stop_sequence}
        usage = self._written_usage()
        yield "message_delta", {"type": "message_delta", "delta": change, "usage": usage}
        yield "message_stop", {"type": "message_stop"}

    def body(self) -> JsonObject:
        """The message, once it has ended."""
        return self._message(self._blocks, self._stop_reason())

    def _grow(self, block: JsonObject, kind: str, name: str, text: str) -> Iterator[Event]:
        if self._open is None or self._open.value["type"] != block["type"]:
            yield from self._begin(block)
        yield self._piece({"type": kind, name: text}, text)

    def _grow_call(self, call: CallDelta) -> Iterator[Event]:
        if self._call != call.index:
            value = {"type": "tool_use", "id": call.id or "", "name": call.name or "", "input": {}}
            yield from self._begin(value)
            self._call = call.index
        if call.arguments:
            delta = {"type": "input_json_delta", "partial_json": call.arguments}
            yield self._piece(delta, call.arguments)

    def _begin(self, value: JsonObject) -> Iterator[Event]:
        yield from self._stop()
        self._open = _Block(len(self._blocks), value)
        yield (
            "content_block_start",
            {"type": "content_block_start", "index": self._open.index, "content_block": value},
        )

    def _piece(self, delta: JsonObject, text: str) -> Event:
        assert self._open is not None  # noqa: S101 - begun by the caller
        self._open.pieces.append(text)
        event = {"type": "content_block_delta", "index": self._open.index, "delta": delta}
        return "content_block_delta", event

    def _stop(self) -> Iterator[Event]:
        if self._open is None:
            return
        stop = {"type": "content_block_stop", "index": self._open.index}
        self._blocks.append(self._open.finished())
        self._open, self._call = None, None
        yield "content_block_stop", stop

    def _message(self, content: list[JsonObject], stop_reason: str | None) -> JsonObject:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": self._stop_sequence,
            "usage": self._written_usage(),
        }

    def _stop_reason(self) -> str:
        """A turn that was cut off calls no tool: its last call may be incomplete."""
        if self._finish == "length":
            return "max_tokens"
        if any(block["type"] == "tool_use" for block in self._blocks):
            return "tool_use"
        return "end_turn" if self._stop_sequence is None else "stop_sequence"

    def _written_usage(self) -> JsonObject:
        """Anthropic counts the tokens that were read from a cache apart from the other input."""
        usage = self._usage
        written = {
            "input_tokens": usage.prompt_tokens - usage.cached_tokens,
            "output_tokens": usage.completion_tokens,
        }
        cached = {"cache_read_input_tokens": usage.cached_tokens} if usage.cached_tokens else {}
        return {**written, **cached}
