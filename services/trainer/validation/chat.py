"""Rows in OpenAI's fine-tuning format: ``messages``, with tools and tool calls."""

import json
from typing import Any

from services.datasets.messages import Message, check_messages, text_of
from services.datasets.record import RowError, shown
from services.trainer.validation.example import Example
from services.trainer.validation.tools import check_tools


def read_chat(row: dict[str, Any]) -> Example:
    """Check a row and return what it holds; raises RowError that names the path at fault.

    Stricter than OpenAI's in one point: after an optional system message, questions (one user
    message, or the answers to tool calls) and assistant messages take turns, because supervised
    training pairs them and would skip any other row.
    """
    if row.get("functions") is not None:
        raise RowError("functions is OpenAI's former way of offering tools; use tools")
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
    _check_weights(messages)
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
            allowed = before in ("assistant", "tool")  # which call it answers was checked
        if not allowed:
            reason = f"after '{before}'" if before else "with no question before it"
            raise RowError(f"{place} {reason}; user and assistant must take turns")
        before = role
    if before != "assistant":
        last = f"messages[{len(messages) - 1}]"
        raise RowError(f"{last}.role is '{messages[-1]['role']}'; the last must be 'assistant'")


def _check_weights(messages: list[Message]) -> None:
    trained = False
    for position, message in enumerate(messages):
        weight = message.get("weight")
        if weight is not None:
            if message["role"] != "assistant":
                raise RowError(f"messages[{position}].weight: only assistant messages have one")
            if isinstance(weight, bool) or weight not in (0, 1):
                raise RowError(f"messages[{position}].weight is {shown(weight)}, not 0 or 1")
        trained = trained or (message["role"] == "assistant" and weight != 0)
    if not trained:
        raise RowError("messages: every assistant message has weight 0, so nothing is trained")


def _calls_text(calls: list[dict[str, Any]]) -> str:
    texts = []
    for call in calls:
        function = call["function"]
        arguments = function["arguments"]
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        texts.append(f'{{"name": "{function["name"]}", "arguments": {arguments}}}')
    return "\n".join(texts)
