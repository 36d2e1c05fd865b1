"""What parsers share: parsed calls and turns, and calls that are JSON objects."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from services.contracts.base import JsonObject
from services.datasets.decoding import StrictDecoder, reason
from services.datasets.record import JsonValue, RowError, shown

MAX_CALLS = 256
"""Maximum number of calls and malformed calls read per turn."""

MAX_NAME = 200
"""Maximum length of a tool's name."""

_KEPT_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class ParsedCall:
    """A call; ``arguments`` is None if the model's arguments are not a JSON object."""

    name: str
    arguments: JsonObject | None


@dataclass(frozen=True, slots=True)
class MalformedCall:
    """The beginning of text that resembles a call, and why it is not one."""

    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """The calls of a turn, in the order written."""

    calls: tuple[ParsedCall, ...]
    malformed: tuple[MalformedCall, ...]


class ToolParser(Protocol):
    """Parses the calls of a turn; thread-safe, in time linear in the text."""

    def parse(self, text: str, tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        """Parse a turn, decoded with special tokens. Never raises.

        ``tools`` are the schemas shown to the model, for formats without typed arguments.
        """
        ...


@dataclass(slots=True)
class CallCollector:
    """Collects the calls in a text, up to `MAX_CALLS`."""

    text: str
    calls: list[ParsedCall] = field(default_factory=list)
    malformed: list[MalformedCall] = field(default_factory=list)

    def add(self, found: ParsedCall | str, start: int, end: int) -> None:
        """Keep a call, or the malformed text between two positions with its reason."""
        if isinstance(found, ParsedCall):
            self.calls.append(found)
        else:
            head = self.text[start : min(end, start + _KEPT_CHARACTERS)]
            self.malformed.append(MalformedCall(head, found))

    def is_full(self, start: int) -> bool:
        """Whether the limit is reached; then the text from ``start`` is recorded as unread."""
        if len(self.calls) + len(self.malformed) < MAX_CALLS:
            return False
        reason = f"a turn has at most {MAX_CALLS} calls; the rest is not read"
        self.add(reason, start, len(self.text))
        return True

    def turn(self) -> ParsedTurn:
        """The collected turn."""
        return ParsedTurn(tuple(self.calls), tuple(self.malformed))


_ARGUMENT_KEYS = ("arguments", "parameters")


class Decoded(NamedTuple):
    """A JSON value and the end of its text."""

    value: JsonValue
    end: int


def decode_at(text: str, start: int) -> Decoded | str:
    """The JSON value at ``start``, or why there is none. Text may follow it."""
    try:
        value, end, fault = StrictDecoder().scan(text, start)
    except json.JSONDecodeError as error:
        return f"is not valid JSON: {reason(error)} at character {error.pos - start + 1}"
    except RowError as error:
        return error.message
    return Decoded(value, end) if fault is None else fault


def call_of(value: JsonValue) -> ParsedCall | str:
    """The call in a value, or why it is not one.

    Missing arguments mean none; arguments as JSON text are decoded.
    """
    if not isinstance(value, dict):
        return f"is {shown(value)}, not an object with name and arguments"
    name = value.get("name")
    if name is None:
        return "name is missing"
    if not isinstance(name, str) or not name or len(name) > MAX_NAME:
        return f"name is {shown(name)}, not a text of 1 to {MAX_NAME} characters"
    return ParsedCall(name, _arguments(value))


def has_arguments(value: JsonValue) -> bool:
    """Whether a value is an object with an arguments key."""
    return isinstance(value, dict) and any(key in value for key in _ARGUMENT_KEYS)


def _arguments(value: JsonObject) -> JsonObject | None:
    for key in _ARGUMENT_KEYS:
        arguments = value.get(key)
        if isinstance(arguments, str):
            arguments = _decoded(arguments)
            return arguments if isinstance(arguments, dict) else None
        if arguments is not None:
            return arguments if isinstance(arguments, dict) else None
    return {}


def _decoded(text: str) -> JsonValue:
    try:
        return StrictDecoder().decode(text)
    except RowError:
        return None
