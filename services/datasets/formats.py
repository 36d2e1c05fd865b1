"""The formats of training rows: OpenAI's chat format, alpaca and sharegpt.

The only place that knows which keys mark a format. A row is checked once and becomes an `Example`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from services.contracts.training.rows import DataFormat
from services.datasets.message_fields import check_fields, is_trained
from services.datasets.messages import (
    Message,
    check_arguments,
    check_messages,
    check_object,
    check_text,
    check_tools,
    text_of,
)
from services.datasets.record import JsonValue, RowError, decode_within, shown

MAX_IGNORED = 20
"""Maximum ignored columns to report; rows with free-form keys must not fill the memory."""

_SHAREGPT_ROLES = {
    "system": "system",
    "human": "user",
    "gpt": "assistant",
    "function_call": "assistant",
    "observation": "tool",
}
_OTHER_NAMES = {"user": "human", "assistant": "gpt"}
_QUESTIONS = ("human", "observation")
_ANSWERS = ("gpt", "function_call")


@dataclass(slots=True)
class Example:
    """A conversation to learn from, whatever the row's format.

    ``turns`` are pairs of role and text, with tool calls as JSON text; ``answers`` counts the
    assistant's turns; ``tools`` is the JSON text of the tools on offer, or empty. Not frozen, for
    speed: one is created per row.
    """

    turns: list[tuple[str, str]]
    answers: int
    tool_calls: int = 0
    tools: str = ""


def detect_format(row: dict[str, Any]) -> DataFormat:
    """The format that a row's keys mark; raises RowError if there is none."""
    for data_format, key in _KEYS.items():
        if row.get(key) is not None:
            return data_format
    known = ", ".join(f"{key} ({data_format})" for data_format, key in _KEYS.items())
    raise RowError(f"has none of the keys that mark a format: {known}")


def read_demonstration(data_format: DataFormat, row: dict[str, Any]) -> Example:
    """Check a row of a known format and return its content; raises RowError."""
    return _READERS[data_format](row)


def read_chat(row: dict[str, Any]) -> Example:
    """Check a row with ``messages`` and return its content; a RowError names the path at fault.

    Stricter than OpenAI in one point: after an optional system message, questions (a user message
    or tool results) and assistant messages alternate, because supervised training pairs them and
    would skip any other row.
    """
    if row.get("functions") is not None:
        raise RowError("functions is OpenAI's deprecated way of offering tools; use tools")
    if not isinstance(row.get("parallel_tool_calls"), bool | None):
        raise RowError(f"parallel_tool_calls is {shown(row['parallel_tool_calls'])}, not a boolean")
    messages = check_messages(row.get("messages"))
    turns, tool_calls, answers = [], 0, 0
    for message in messages:
        text = text_of(message)
        if message["role"] == "assistant":
            answers += 1
            if calls := message.get("tool_calls"):
                tool_calls += len(calls)
                text += _calls_text(calls)
        turns.append((message["role"], text))
    _check_order(messages)
    _check_own_fields(messages)
    return Example(turns, answers, tool_calls, check_tools(row.get("tools")))


def _check_order(messages: list[Message]) -> None:
    before = ""
    for position, message in enumerate(messages):
        role = message["role"]
        place = f"messages[{position}].role is '{role}'"
        if role in ("system", "developer"):
            if position:
                raise RowError(f"{place}; only the first message may be")
            continue
        if role == "assistant":
            allowed = before in ("user", "tool")
        elif role == "user":
            allowed = before in ("", "assistant")
        else:
            allowed = before in ("assistant", "tool")  # its call was checked before
        if not allowed:
            reason = f"after '{before}'" if before else "with no question before it"
            raise RowError(f"{place} {reason}; user and assistant must alternate")
        before = role
    if before != "assistant":
        last = f"messages[{len(messages) - 1}]"
        raise RowError(f"{last}.role is '{messages[-1]['role']}'; the last must be 'assistant'")


def _check_own_fields(messages: list[Message]) -> None:
    trained = False
    for position, message in enumerate(messages):
        answers = message["role"] == "assistant"
        check_fields(message, f"messages[{position}]", answers=answers)
        trained = trained or (answers and is_trained(message))
    if not trained:
        raise RowError("messages: every assistant message has weight 0, so nothing is trained")


def _calls_text(calls: list[dict[str, Any]]) -> str:
    texts = []
    for call in calls:
        function = call["function"]
        arguments = function["arguments"] or {}
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        texts.append(f'{{"name": "{function["name"]}", "arguments": {arguments}}}')
    return "\n".join(texts)


def read_alpaca(row: dict[str, Any]) -> Example:
    """Check a row with ``instruction`` and ``output`` (``input``, ``system`` and ``history`` are
    optional) and return its content; a RowError names the path at fault."""
    instruction = check_text(row.get("instruction"), "instruction")
    extra = _optional_text(row, "input")
    question = "\n".join(text for text in (instruction, extra) if text)
    if not question:
        raise RowError("instruction and input are both empty")
    turns = []
    if system := _optional_text(row, "system"):
        turns.append(("system", system))
    turns.extend(_history(row))
    turns.append(("user", question))
    turns.append(("assistant", check_text(row.get("output"), "output")))
    return Example(turns, answers=len(turns) // 2)


def _optional_text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return "" if value is None else check_text(value, key)


def _history(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    history = row.get("history")
    if history is None:
        return
    if not isinstance(history, list):
        raise RowError(f"history is {shown(history)}, not a list of pairs")
    for position, pair in enumerate(history):
        place = f"history[{position}]"
        if not isinstance(pair, list) or len(pair) != 2:
            raise RowError(f"{place} is {shown(pair)}, not a pair of question and answer")
        yield "user", check_text(pair[0], f"{place}[0]")
        yield "assistant", check_text(pair[1], f"{place}[1]")


def read_sharegpt(row: dict[str, Any]) -> Example:
    """Check a row with ``conversations`` of ``from`` and ``value``, and return its content.

    After an optional system message, human or observation alternates with gpt or function_call.
    Raises RowError that names the path at fault.
    """
    turns = _sharegpt_system(row)
    tool_calls, expected, trained = 0, _QUESTIONS, False
    for position, message in enumerate(_conversations(row)):
        path = f"conversations[{position}]"
        source, value = _sharegpt_message(message, path)
        if source == "system":
            if turns:
                raise RowError(f"{path}.from is 'system'; only one message, the first, may be")
        elif source not in expected:
            raise RowError(f"{path}.from is '{source}' where {' or '.join(expected)} is expected")
        else:
            expected = _ANSWERS if expected is _QUESTIONS else _QUESTIONS
        if source == "function_call":
            tool_calls += _check_sharegpt_calls(value, f"{path}.value")
        answers_now = source in _ANSWERS
        check_fields(message, path, answers=answers_now)
        trained = trained or (answers_now and is_trained(message))
        turns.append((_SHAREGPT_ROLES[source], value))
    answers = sum(role == "assistant" for role, _ in turns)
    if turns[-1][0] != "assistant":
        raise RowError(f"conversations must end with {' or '.join(_ANSWERS)}")
    if not trained:
        raise RowError("conversations: no turn of the assistant has a loss, so nothing is trained")
    return Example(turns, answers, tool_calls, check_tools(row.get("tools")))


def _sharegpt_system(row: dict[str, Any]) -> list[tuple[str, str]]:
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


def _sharegpt_message(message: JsonValue, path: str) -> tuple[str, str]:
    source = check_object(message, path).get("from")
    if source is None:
        raise RowError(f"{path}.from is missing")
    source = _OTHER_NAMES.get(source, source) if isinstance(source, str) else source
    if not isinstance(source, str) or source not in _SHAREGPT_ROLES:
        raise RowError(f"{path}.from is {shown(source)}; known are {', '.join(_SHAREGPT_ROLES)}")
    return source, check_text(message.get("value"), f"{path}.value")


def _check_sharegpt_calls(text: str, path: str) -> int:
    """Check the JSON text of one call or a list of calls; returns their number."""
    calls = decode_within(text, path)
    calls = calls if isinstance(calls, list) else [calls]
    if not calls:
        raise RowError(f"{path} is an empty list of calls")
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise RowError(f"{path} must be JSON of {{name, arguments}}, or a list of these")
        check_arguments(call.get("arguments"), f"{path}: arguments")
    return len(calls)


_KEYS = {
    DataFormat.CHAT: "messages",
    DataFormat.SHAREGPT: "conversations",
    DataFormat.ALPACA: "instruction",
}

_READERS: dict[DataFormat, Callable[[dict[str, Any]], Example]] = {
    DataFormat.CHAT: read_chat,
    DataFormat.SHAREGPT: read_sharegpt,
    DataFormat.ALPACA: read_alpaca,
}

USED_COLUMNS: dict[DataFormat, frozenset[str]] = {
    DataFormat.CHAT: frozenset({"messages", "tools", "functions", "parallel_tool_calls"}),
    DataFormat.SHAREGPT: frozenset({"conversations", "system", "tools"}),
    DataFormat.ALPACA: frozenset({"instruction", "input", "output", "system", "history"}),
    DataFormat.TEXT: frozenset({"text"}),
}
