"""Calls that are JSON objects: {"name": ..., "arguments": {...}}."""

import json
from typing import NamedTuple

from services.contracts.base import JsonObject
from services.datasets.decoding import StrictDecoder, reason
from services.datasets.record import JsonValue, RowError, shown
from services.rollouts.parsers.parsed import MAX_NAME, ParsedCall

_ARGUMENT_KEYS = ("arguments", "parameters")


class Decoded(NamedTuple):
    """A JSON value and where its text ends."""

    value: JsonValue
    end: int


def decode_at(text: str, start: int) -> Decoded | str:
    """The JSON value that begins at ``start``, or why there is none. Text may follow it."""
    try:
        value, end, fault = StrictDecoder().scan(text, start)
    except json.JSONDecodeError as error:
        return f"is not valid JSON: {reason(error)} at character {error.pos - start + 1}"
    except RowError as error:
        return error.message
    return Decoded(value, end) if fault is None else fault


def call_of(value: JsonValue) -> ParsedCall | str:
    """The call that a value states, or why it is none.

    Arguments that are missing are none at all; written as JSON text they are read.
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
    """Whether an object has arguments, of whatever kind."""
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
