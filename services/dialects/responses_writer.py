"""Writes turns of a model as OpenAI's response: numbered events of a stream, and the response."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from services.contracts.base import JsonObject
from services.dialects.deltas import CallDelta, Delta, TurnUsage
from services.dialects.exchange import Event

Unnumbered = tuple[str, JsonObject]


@dataclass
class ServerCall:
    """A call of a tool that the server runs; no item of it is written yet."""

    id: str
    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> str:
        """The arguments, as the model wrote them."""
        return "".join(self.pieces)


@dataclass
class _Open:
    """An item that grows: its place in the output, itself without text, and its text."""

    index: int
    item: JsonObject
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def place(self) -> JsonObject:
        return {"item_id": self.item["id"], "output_index": self.index}


class ResponseWriter:
    """Writes one response of any number of turns.

    ``head`` has the fields that do not change; ``output`` are items that an earlier run finished,
    and ``next_number`` is the number of the next event. ``is_server_tool`` tells which calls the
    server answers: they become `server_calls`, not function calls.
    """

    def __init__(
        self,
        head: JsonObject,
        *,
        output: Sequence[JsonObject] = (),
        usage: TurnUsage | None = None,
        next_number: int = 0,
        is_server_tool: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self.output: list[JsonObject] = list(output)
        self.server_calls: list[ServerCall] = []
        self.calls: list[JsonObject] = []
        self.finish: str | None = None
        self.text = ""
        self.next_number = next_number
        self._head = head
        self._is_server_tool = is_server_tool
        self._earlier = usage or TurnUsage()
        self._usage = TurnUsage()
        self._open: _Open | None = None
        self._call: int | None = None
        self._items = 0
        self._turn_begins = len(self.output)

    @property
    def usage(self) -> TurnUsage:
        """The tokens of all turns."""
        one, other = self._earlier, self._usage
        return TurnUsage(
            one.prompt_tokens + other.prompt_tokens,
            one.completion_tokens + other.completion_tokens,
            one.cached_tokens + other.cached_tokens,
        )

    def begin(self) -> Iterator[Event]:
        """The first events; also those of a run that continues."""
        if self.next_number == 0:
            yield from self._numbered([("response.created", self._as_response("in_progress"))])
        yield from self._numbered([("response.in_progress", self._as_response("in_progress"))])

    def begin_turn(self) -> None:
        """Begin a turn; what was written of one that did not end is forgotten."""
        del self.output[self._turn_begins :]
        self._open, self._call = None, None
        self.server_calls, self.calls, self.finish, self.text = [], [], None, ""
        self._usage = TurnUsage()

    def feed(self, delta: Delta) -> Iterator[Event]:
        """The events of the next delta."""
        yield from self._numbered(self._grown(delta))

    def end_turn(self) -> Iterator[Event]:
        """The events after the last delta of a turn."""
        yield from self._numbered(self._ended())
        self._earlier, self._usage = self.usage, TurnUsage()
        self._turn_begins = len(self.output)

    def begin_item(self, item: JsonObject, *progress: Unnumbered) -> Iterator[Event]:
        """An item of the server's begins; ``progress`` are events about it."""
        index = len(self.output)
        place = {"output_index": index, "item_id": item["id"]}
        added = ("response.output_item.added", {"output_index": index, "item": item})
        yield from self._numbered([added, *((name, {**place, **data}) for name, data in progress)])

    def end_item(self, item: JsonObject, *progress: Unnumbered) -> Iterator[Event]:
        """An item of the server's is finished."""
        index = len(self.output)
        place = {"output_index": index, "item_id": item["id"]}
        self.output.append(item)
        self._turn_begins = len(self.output)
        done = ("response.output_item.done", {"output_index": index, "item": item})
        yield from self._numbered([*((name, {**place, **data}) for name, data in progress), done])

    def end(
        self, status: str, *, error: JsonObject | None = None, reason: str | None = None
    ) -> Iterator[Event]:
        """The last event. ``reason`` is why a response is incomplete."""
        yield from self._numbered(
            [(f"response.{status}", self._as_response(status, error, reason))]
        )

    def body(
        self, status: str, error: JsonObject | None = None, reason: str | None = None
    ) -> JsonObject:
        """The response with what is finished of it."""
        usage = self.usage
        return {
            **self._head,
            "status": status,
            "error": error,
            "incomplete_details": None if reason is None else {"reason": reason},
            "output": list(self.output),
            "usage": written_usage(usage) if status != "in_progress" else None,
        }

    def _as_response(
        self, status: str, error: JsonObject | None = None, reason: str | None = None
    ) -> JsonObject:
        return {"response": self.body(status, error, reason)}

    def _numbered(self, events: Iterator[Unnumbered] | list[Unnumbered]) -> Iterator[Event]:
        for name, data in events:
            number, self.next_number = self.next_number, self.next_number + 1
            yield name, {"type": name, "sequence_number": number, **data}

    def _grown(self, delta: Delta) -> Iterator[Unnumbered]:
        self._usage = delta.usage or self._usage
        self.finish = delta.finish_reason or self.finish
        if delta.reasoning:
            yield from self._grow("reasoning", delta.reasoning)
        if delta.content:
            self.text += delta.content
            yield from self._grow("message", delta.content)
        for call in delta.calls:
            yield from self._grow_call(call)

    def _grow(self, kind: str, text: str) -> Iterator[Unnumbered]:
        if self._open is None or self._open.item["type"] != kind:
            yield from self._begin(_EMPTY[kind])
        assert self._open is not None  # noqa: S101 - just begun
        self._open.pieces.append(text)
        yield _DELTA[kind], {**self._within(self._open), **_delta(kind, text)}

    def _grow_call(self, call: CallDelta) -> Iterator[Unnumbered]:
        if self._call != call.index:
            yield from self._close()
            self._call = call.index
            name, identity = call.name or "", call.id or f"call_{self._new_id()}"
            if self._is_server_tool(name):
                self.server_calls.append(ServerCall(identity, name))
            else:
                yield from self._begin(
                    {"type": "function_call", "call_id": identity, "name": name, "arguments": ""}
                )
        if self._open is None:
            self.server_calls[-1].pieces.append(call.arguments)
        elif call.arguments:
            self._open.pieces.append(call.arguments)
            place = self._open.place
            yield "response.function_call_arguments.delta", {**place, "delta": call.arguments}

    def _begin(self, item: JsonObject) -> Iterator[Unnumbered]:
        yield from self._close()
        prefix = _PREFIX[item["type"]]
        begun = {"id": f"{prefix}_{self._new_id()}", "status": "in_progress", **item}
        self._open = _Open(len(self.output), begun)
        yield "response.output_item.added", {"output_index": self._open.index, "item": begun}
        if item["type"] == "message":
            part = _part("")
            yield "response.content_part.added", {**self._within(self._open), "part": part}

    def _close(self) -> Iterator[Unnumbered]:
        if self._open is None:
            return
        opened, self._open, self._call = self._open, None, None
        text, within = opened.text, self._within(opened)
        done: JsonObject = {**opened.item, "status": "completed"}
        match done["type"]:
            case "message":
                done["content"] = [_part(text)]
                yield "response.output_text.done", {**within, "text": text, "logprobs": []}
                yield "response.content_part.done", {**within, "part": _part(text)}
            case "reasoning":
                done["content"] = [{"type": "reasoning_text", "text": text}]
                yield "response.reasoning_text.done", {**within, "text": text}
            case _:
                done["arguments"] = text
                self.calls.append(done)
                told = {**opened.place, "name": done["name"], "arguments": text}
                yield "response.function_call_arguments.done", told
        self.output.append(done)
        yield "response.output_item.done", {"output_index": opened.index, "item": done}

    def _ended(self) -> Iterator[Unnumbered]:
        yield from self._close()
        if self.finish == "length" and self.output and self.output[-1]["type"] != "reasoning":
            self.output[-1]["status"] = "incomplete"
        is_empty = not (self.text or self.calls or self.server_calls)
        if is_empty:  # clients expect a message
            yield from self._begin(_EMPTY["message"])
            yield from self._close()

    def _within(self, opened: _Open) -> JsonObject:
        return {**opened.place, "content_index": 0}

    def _new_id(self) -> str:
        """Unique in the response, also among what an earlier run of it wrote."""
        self._items += 1
        identity = str(self._head["id"]).removeprefix("resp_")
        return f"{identity}_{self.next_number}_{self._items}"


_EMPTY: dict[str, JsonObject] = {
    "message": {"type": "message", "role": "assistant", "content": []},
    "reasoning": {"type": "reasoning", "summary": [], "content": []},
}
_PREFIX = {"message": "msg", "reasoning": "rs", "function_call": "fc"}
_DELTA = {"message": "response.output_text.delta", "reasoning": "response.reasoning_text.delta"}


def _delta(kind: str, text: str) -> JsonObject:
    return {"delta": text, "logprobs": []} if kind == "message" else {"delta": text}


def _part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def written_usage(usage: TurnUsage) -> JsonObject:
    """Tokens as OpenAI's responses count them."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
