"""Rows in further layouts of published data sets, rewritten in a format that Temper reads.

Supports TRL's ``prompt`` and ``completion``, and its ``chosen`` and ``rejected``, as texts or lists
of messages; ``conversations`` of messages in OpenAI's layout; and lists stored as JSON text.
"""

import json
from typing import Any

from services.contracts.training.rows import LABEL_COLUMNS, RowKind
from services.datasets.message_fields import LOSS_KEYS
from services.datasets.record import JsonValue, RowError, decode_within, shown

Row = dict[str, Any]

_LISTS = ("messages", "conversations", "chosen", "rejected")
_FORMATS = ("messages", "conversations", "instruction", "input", "preferred_output")
_TURNS = (("messages", "role", "content"), ("conversations", "from", "value"))
_BOOLEANS = {"true": True, "false": False}


def as_known(row: Row, kind: RowKind, *, joins_turns: bool = False) -> tuple[Row, str]:
    """The row in a known format, and how its layout is called in errors; empty if it is unchanged.

    ``joins_turns`` joins consecutive messages of one role, except calls and their results.
    """
    row = _decoded(row, kind)
    layout = ""
    if kind is not RowKind.TEXT and not any(row.get(name) is not None for name in _FORMATS):
        if kind is RowKind.PREFERENCE and isinstance(row.get("chosen"), list | str):
            row, layout = _preference(row), "chosen and rejected, as messages"
        elif row.get("prompt") is not None and row.get("completion") is not None:
            row, layout = _completion(row), "prompt and completion, as messages"
    turns = row.get("conversations")
    if isinstance(turns, list) and turns and isinstance(turns[0], dict) and "role" in turns[0]:
        rest = {name: value for name, value in row.items() if name != "conversations"}
        row, layout = {**rest, "messages": turns}, "conversations, as messages"
    return (_joined(row) if joins_turns else row), layout


def _decoded(row: Row, kind: RowKind) -> Row:
    """The row with lists that are stored as JSON text, as in columns of CSV, and labels as text."""
    changes: Row = {}
    for name in _LISTS:
        text = row.get(name)
        if isinstance(text, str) and text.lstrip().startswith("[{"):
            changes[name] = decode_within(text, name)
    if kind is RowKind.FEEDBACK:
        for name in LABEL_COLUMNS:
            word = row.get(name)
            if isinstance(word, str) and word.lower() in _BOOLEANS:
                changes[name] = _BOOLEANS[word.lower()]
    return {**row, **changes} if changes else row


def _completion(row: Row) -> Row:
    """TRL's rows of a prompt and its completion; only the completion is learned."""
    answers = _messages(row["completion"], "completion", "assistant")
    rest = {name: row[name] for name in row if name not in ("prompt", "completion")}
    return {**rest, "messages": [*_unlearned(_messages(row["prompt"], "prompt", "user")), *answers]}


def _preference(row: Row) -> Row:
    """TRL's rows: both answers with their whole conversations, or after a prompt."""
    sides = [_messages(row.get(name), name, "assistant") for name in ("chosen", "rejected")]
    contexts = [side[:-1] for side in sides]
    if contexts[0] != contexts[1]:
        raise RowError("chosen and rejected differ before their last message")
    context, prompt = contexts[0], row.get("prompt")
    if not context or context[0].get("role") == "assistant":
        if prompt is None:
            raise RowError("prompt is missing: chosen and rejected hold only answers")
        context = [*_messages(prompt, "prompt", "user"), *context]
    rest = {
        name: row[name] for name in row if name not in ("prompt", "chosen", "rejected", "tools")
    }
    tools = {} if row.get("tools") is None else {"tools": row["tools"]}
    return {
        **rest,
        "input": {"messages": context, **tools},
        "preferred_output": [sides[0][-1]],
        "non_preferred_output": [sides[1][-1]],
    }


def _messages(value: JsonValue, path: str, role: str) -> list[Row]:
    """The messages of a column: a text is one of ``role``."""
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list) or not value:
        problem = "missing" if value is None else f"{shown(value)}, not a text or messages"
        raise RowError(f"{path} is {problem}")
    for position, message in enumerate(value):
        if not isinstance(message, dict):
            raise RowError(f"{path}[{position}] is {shown(message)}, not an object")
    return value


def _unlearned(messages: list[Row]) -> list[Row]:
    said = dict.fromkeys(LOSS_KEYS)
    return [
        {**message, **said, "weight": 0} if message.get("role") == "assistant" else message
        for message in messages
    ]


def _joined(row: Row) -> Row:
    """The row with consecutive texts of one role as one message."""
    for column, role, content in _TURNS:
        turns = row.get(column)
        if not isinstance(turns, list):
            continue
        joined: list[Any] = []
        for turn in turns:
            before = joined[-1] if joined else {}
            if _can_join(before, turn, role, content):
                joined[-1] = {**before, content: f"{before[content]}\n\n{turn[content]}"}
            else:
                joined.append(turn)
        row = {**row, column: joined}
    return row


def _can_join(before: JsonValue, turn: JsonValue, role: str, content: str) -> bool:
    """Whether two messages of one role differ in nothing but their texts."""
    if not isinstance(before, dict) or not isinstance(turn, dict):
        return False
    texts = isinstance(before.get(content), str) and isinstance(turn.get(content), str)
    plain = turn.get(role) not in ("tool", "observation", "function_call")
    rest = [{key: each[key] for key in each if key != content} for each in (before, turn)]
    return (
        texts
        and plain
        and json.dumps(rest[0], sort_keys=True) == json.dumps(rest[1], sort_keys=True)
    )
