"""A training row as a conversation and the tools on offer, independent of the row's format."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.message_fields import is_trained, reasoning_of
from services.datasets.messages import text_of
from services.datasets.record import JsonValue
from services.datasets.training_rows import Demonstration, TrainingRow, TrainingRowReader

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call by the assistant."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One turn; ``role`` is system, user, assistant or tool. Only ``learned`` turns have a loss."""

    role: str
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    name: str | None = None
    tool_call_id: str | None = None
    learned: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns up to the last learned one, and the tools on offer in OpenAI's form."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A row as conversations: two for a preference, the preferred one first; none for text.

    ``label`` says whether the answer of a row with feedback is desirable; None for other kinds.
    """

    conversations: tuple[Conversation, ...]
    label: bool | None = None


class ConversationReader:
    """Turns rows of one kind and format into conversations; AUTO is decided by the first row."""

    def __init__(
        self, kind: RowKind, data_format: DataFormat, *, joins_turns: bool = False
    ) -> None:
        self._kind = kind
        self._rows = TrainingRowReader(kind, data_format, joins_turns=joins_turns)

    def read(self, row: JsonValue) -> ConversationRow:
        """Check a row and return its conversations; a RowError names the path at fault."""
        checked = self._rows.read(row)
        return conversation_row(self._kind, self._rows.format, checked)


def conversation_row(
    kind: RowKind, data_format: DataFormat | None, checked: TrainingRow
) -> ConversationRow:
    """The conversations of a checked row of a known format."""
    if kind is RowKind.TEXT:
        return ConversationRow(())
    conversations = tuple(_conversation(data_format, each) for each in checked.demonstrations)
    return ConversationRow(conversations, checked.label)


def _conversation(data_format: DataFormat | None, given: Demonstration) -> Conversation:
    messages = tuple(_MESSAGES[data_format](given.row))
    last = max(index for index, message in enumerate(messages) if message.learned)
    return Conversation(messages[: last + 1], _tools(given.example.tools))


def read_message(turn: Row) -> Message:
    """A checked message in OpenAI's format."""
    role = "system" if turn["role"] == "developer" else turn["role"]
    return Message(
        role=role,
        content=text_of(turn),
        reasoning=reasoning_of(turn),
        tool_calls=_calls(turn.get("tool_calls") or ()),
        name=turn.get("name"),
        tool_call_id=turn.get("tool_call_id"),
        learned=role == "assistant" and is_trained(turn),
    )


def _chat_messages(row: Row) -> Iterator[Message]:
    yield from map(read_message, row["messages"])


def _alpaca_messages(row: Row) -> Iterator[Message]:
    if row.get("system"):
        yield Message("system", row["system"])
    for question, answer in row.get("history") or ():
        yield Message("user", question)
        yield Message("assistant", answer, learned=True)
    yield Message(
        "user", "\n".join(text for text in (row["instruction"], row.get("input")) if text)
    )
    yield Message("assistant", row["output"], learned=True)


def _sharegpt_messages(row: Row) -> Iterator[Message]:
    if row.get("system"):
        yield Message("system", row["system"])
    for turn in row["conversations"]:
        value, thought, learned = turn["value"], reasoning_of(turn), is_trained(turn)
        match turn["from"]:
            case "function_call":
                parsed = json.loads(value)
                calls = parsed if isinstance(parsed, list) else [parsed]
                yield Message("assistant", "", thought, _calls(calls), learned=learned)
            case "gpt" | "assistant":
                yield Message("assistant", value, thought, learned=learned)
            case source:
                yield Message(_SHAREGPT_ROLES.get(source, source), value)


_SHAREGPT_ROLES = {"human": "user", "observation": "tool"}
"""Roles under other names than ours."""


def _calls(calls: Any) -> tuple[ToolCall, ...]:
    return tuple(_call(call) for call in calls)


def _call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function", call)
    arguments = function["arguments"]
    if isinstance(arguments, str):
        arguments = json.loads(arguments) if arguments.strip() else {}
    return ToolCall(function["name"], arguments, call.get("id"))


def _tools(text: str) -> tuple[dict[str, Any], ...]:
    return tuple(
        tool if tool.get("function") is not None else {"type": "function", "function": tool}
        for tool in (json.loads(text) if text else ())
    )


_MESSAGES: dict[DataFormat | None, Callable[[Row], Iterator[Message]]] = {
    DataFormat.CHAT: _chat_messages,
    DataFormat.ALPACA: _alpaca_messages,
    DataFormat.SHAREGPT: _sharegpt_messages,
}
