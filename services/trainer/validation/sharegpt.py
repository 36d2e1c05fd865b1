"""Rows in the sharegpt layout: ``conversations`` of ``from`` and ``value``, tools, a system."""

from typing import Any

from services.datasets.decoding import decode_within
from services.datasets.messages import check_arguments, check_object, check_text
from services.datasets.record import JsonValue, RowError, shown
from services.trainer.validation.example import Example
from services.trainer.validation.tools import check_tools

_ROLES = {
    "system": "system",
    "human": "user",
    "gpt": "assistant",
    "function_call": "assistant",
    "observation": "tool",
}
_QUESTIONS = ("human", "observation")
_ANSWERS = ("gpt", "function_call")


def read_sharegpt(row: dict[str, Any]) -> Example:
    """Check a row and return what it holds; raises RowError that names the path at fault.

    After an optional system message, human or observation takes turns with gpt or function_call.
    """
    turns = _system(row)
    tool_calls, expected = 0, _QUESTIONS
    for position, message in enumerate(_conversations(row)):
        path = f"conversations[{position}]"
        source, value = _message(message, path)
        if source == "system":
            if turns:
                raise RowError(f"{path}.from is 'system'; only one message, the first, may be")
        elif source not in expected:
            raise RowError(f"{path}.from is '{source}' where {' or '.join(expected)} is due")
        else:
            expected = _ANSWERS if expected is _QUESTIONS else _QUESTIONS
        if source == "function_call":
            tool_calls += _check_calls(value, f"{path}.value")
        turns.append((_ROLES[source], value))
    answers = sum(role == "assistant" for role, _ in turns)
    if turns[-1][0] != "assistant":
        raise RowError(f"conversations must end with {' or '.join(_ANSWERS)}")
    return Example(turns, answers, tool_calls, check_tools(row.get("tools")))


def _system(row: dict[str, Any]) -> list[tuple[str, str]]:
    system = row.get("system")
    return [("system", check_text(system, "system"))] if system else []


def _conversations(row: dict[str, Any]) -> list[JsonValue]:
    conversations = row.get("conversations")
    if conversations is None:
        raise RowError("conversations is missing")
    if not isinstance(conversations, list):
        raise RowError(f"conversations is {shown(conversations)}, not a list")
    if not conversations:
        raise RowError("conversations is empty")
    return conversations


def _message(message: JsonValue, path: str) -> tuple[str, str]:
    source = check_object(message, path).get("from")
    if source is None:
        raise RowError(f"{path}.from is missing")
    if not isinstance(source, str) or source not in _ROLES:
        raise RowError(f"{path}.from is {shown(source)}; known are {', '.join(_ROLES)}")
    return source, check_text(message.get("value"), f"{path}.value")


def _check_calls(text: str, path: str) -> int:
    """Check JSON text of one call or of a list of calls; returns how many there are."""
    calls = decode_within(text, path)
    calls = calls if isinstance(calls, list) else [calls]
    if not calls:
        raise RowError(f"{path} is a list of no calls")
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise RowError(f"{path} must be JSON of {{name, arguments}}, or a list of these")
        check_arguments(call.get("arguments"), f"{path}: arguments")
    return len(calls)
