"""One training row, whatever format it came in: a conversation and the tools it may call."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from services.contracts.fine_tuning import DataFormat
from services.datasets.messages import text_of
from services.datasets.record import JsonValue, RowError
from services.trainer.validation.alpaca import read_alpaca
from services.trainer.validation.chat import read_chat
from services.trainer.validation.example import Example
from services.trainer.validation.sharegpt import read_sharegpt

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the assistant made."""

    name: str
    arguments: dict[str, Any]
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One turn; ``role`` is system, user, assistant or tool. Only what is ``learned`` has loss."""

    role: str
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    name: str | None = None
    tool_call_id: str | None = None
    learned: bool = False


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns up to the last one that is learned, and the tools on offer in OpenAI's form."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()


def detect_format(row: JsonValue) -> DataFormat:
    """The format that the columns of a row belong to; raises RowError for foreign columns."""
    columns = {key for key, value in row.items() if value is not None}
    for column, data_format in (
        ("messages", DataFormat.CHAT),
        ("conversations", DataFormat.SHAREGPT),
        ("instruction", DataFormat.ALPACA),
    ):
        if column in columns:
            return data_format
    raise RowError("has none of the columns messages, conversations and instruction")


def read_conversation(row: JsonValue, data_format: DataFormat) -> Conversation:
    """Check a row and return its conversation; raises RowError that names the path at fault."""
    if not isinstance(row, dict):
        raise RowError("is not an object")
    check, convert = _READERS[data_format]
    example = check(row)
    messages = tuple(convert(row))
    last = max(index for index, message in enumerate(messages) if message.learned)
    return Conversation(messages[: last + 1], _tools(example))


def _chat_messages(row: Row) -> Iterator[Message]:
    for turn in row["messages"]:
        role = "system" if turn["role"] == "developer" else turn["role"]
        yield Message(
            role=role,
            content=text_of(turn),
            reasoning=turn.get("reasoning_content") or "",
            tool_calls=_calls(turn.get("tool_calls") or ()),
            name=turn.get("name"),
            tool_call_id=turn.get("tool_call_id"),
            learned=role == "assistant" and turn.get("weight") != 0,
        )


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
        value = turn["value"]
        match turn["from"]:
            case "function_call":
                parsed = json.loads(value)
                calls = parsed if isinstance(parsed, list) else [parsed]
                yield Message("assistant", tool_calls=_calls(calls), learned=True)
            case "gpt":
                yield Message("assistant", value, learned=True)
            case source:
                roles = {"system": "system", "human": "user", "observation": "tool"}
                yield Message(roles[source], value)


def _calls(calls: Any) -> tuple[ToolCall, ...]:
    return tuple(_call(call) for call in calls)


def _call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function", call)
    arguments = function["arguments"]
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    return ToolCall(function["name"], arguments, call.get("id"))


def _tools(example: Example) -> tuple[dict[str, Any], ...]:
    tools = json.loads(example.tools) if example.tools else []
    return tuple(
        tool if tool.get("function") is not None else {"type": "function", "function": tool}
        for tool in tools
    )


_READERS: dict[DataFormat, tuple[Callable[[Row], Example], Callable[[Row], Iterator[Message]]]] = {
    DataFormat.CHAT: (read_chat, _chat_messages),
    DataFormat.ALPACA: (read_alpaca, _alpaca_messages),
    DataFormat.SHAREGPT: (read_sharegpt, _sharegpt_messages),
}
