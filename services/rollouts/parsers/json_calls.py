"""Formats of calls that are JSON objects: Hermes, Llama 3 and Mistral."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from services.contracts.base import JsonObject
from services.datasets.record import JsonValue, RowError, StrictDecoder, reason, shown
from services.rollouts.parsers.base import MAX_NAME, CallCollector, ParsedCall, ParsedTurn

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
        return f"name is {shown(name)}, not a string of 1 to {MAX_NAME} characters"
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


_HERMES_OPEN, _HERMES_CLOSE = "<tool_call>", "</tool_call>"
_HERMES_TAG = re.compile(r"</?tool_call>")
_BLANKS = re.compile(r"\s*")


class HermesParser:
    """Hermes and Qwen: <tool_call>{"name": ..., "arguments": {...}}</tool_call>.

    One call per pair of tags; a tag inside a JSON string is text.
    """

    def parse(self, text: str, _tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        findings = CallCollector(text)
        place = 0
        while (start := text.find(_HERMES_OPEN, place)) >= 0 and not findings.is_full(start):
            found, place = _read_hermes(text, start)
            findings.add(found, start, place)
        return findings.turn()


def _read_hermes(text: str, start: int) -> tuple[ParsedCall | str, int]:
    """The call after the tag at ``start``, or why there is none, and where to continue."""
    body = start + len(_HERMES_OPEN)
    decoded = decode_at(text, _blanks_end(text, body))
    if isinstance(decoded, str):
        return decoded, _next_tag(text, body)
    close = _blanks_end(text, decoded.end)
    if not text.startswith(_HERMES_CLOSE, close):
        return f"is not followed by {_HERMES_CLOSE}", _next_tag(text, decoded.end)
    return call_of(decoded.value), close + len(_HERMES_CLOSE)


def _blanks_end(text: str, start: int) -> int:
    match = _BLANKS.match(text, start)
    return match.end() if match else start


def _next_tag(text: str, start: int) -> int:
    """The end of the next closing tag, or the start of an opening tag before it."""
    tag = _HERMES_TAG.search(text, start)
    if tag is None:
        return len(text)
    return tag.start() if tag.group() == _HERMES_OPEN else tag.end()


_LLAMA3_TAG = "<|python_tag|>"
_LLAMA3_CALL = re.compile(r'\{\s*"(?:name|type|function|parameters)"')


class Llama3JsonParser:
    """Llama 3.1 and later: {"name": ..., "parameters": {...}}, several with semicolons.

    The model may mark its calls with <|python_tag|>, and may write text before them. Every object
    with a name and parameters is a call; others are text.
    """

    def parse(self, text: str, _tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        findings = CallCollector(text)
        tag = text.find(_LLAMA3_TAG)
        place = 0
        while match := _LLAMA3_CALL.search(text, place):
            start = match.start()
            if findings.is_full(start):
                break
            place = _read_llama3(findings, start, marked=0 <= tag < start)
        if tag >= 0 and not (findings.calls or findings.malformed):
            findings.add("is not a JSON object with name and parameters", tag, len(text))
        return findings.turn()


def _read_llama3(findings: CallCollector, start: int, *, marked: bool) -> int:
    """Read the object at ``start``; returns where to continue."""
    text = findings.text
    decoded = decode_at(text, start)
    if isinstance(decoded, str):
        following = _LLAMA3_CALL.search(text, start + 1)
        end = following.start() if following else len(text)
        findings.add(decoded, start, end)
        return end
    if marked or has_arguments(decoded.value):
        findings.add(call_of(decoded.value), start, decoded.end)
    return decoded.end


_MISTRAL_TAG = "[TOOL_CALLS]"


class MistralParser:
    """Mistral: [TOOL_CALLS] and a JSON list of {"name", "arguments", "id"}, or several of both."""

    def parse(self, text: str, _tools: Sequence[JsonObject] = (), /) -> ParsedTurn:
        findings = CallCollector(text)
        for calls, start, end in _mistral_lists(text):
            for value in [calls] if isinstance(calls, str) else calls:
                if findings.is_full(start):
                    return findings.turn()
                found = calls if isinstance(calls, str) else call_of(value)
                findings.add(found, start, end)
        return findings.turn()


def call_ids(text: str) -> Iterator[str | None]:
    """The ids that the model gave the calls of a turn, in order; None for a call without one."""
    for calls, _, _ in _mistral_lists(text):
        for value in [] if isinstance(calls, str) else calls:
            if not isinstance(call_of(value), str):
                identity = value.get("id")
                yield identity if isinstance(identity, str) else None


def _mistral_lists(text: str) -> Iterator[tuple[list[JsonValue] | str, int, int]]:
    """The list behind each tag, or why there is none, and where its part of the text lies."""
    tag = text.find(_MISTRAL_TAG)
    while tag >= 0:
        calls, place = _list_after(text, tag)
        following = text.find(_MISTRAL_TAG, place)
        yield calls, tag, following if following >= 0 else len(text)
        tag = following


def _list_after(text: str, tag: int) -> tuple[list[JsonValue] | str, int]:
    """The list behind a tag, or why there is none, and where the next tag may be."""
    start = tag + len(_MISTRAL_TAG)
    while text[start : start + 1].isspace():
        start += 1
    decoded = decode_at(text, start)
    if isinstance(decoded, str):
        return decoded, start
    value = decoded.value
    if isinstance(value, list):
        return value, decoded.end
    return f"is {shown(value)}, not a list of calls", decoded.end
