"""Conversations in the form that reward models read."""

from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
Schema = dict[str, Any]
Render = Callable[[list[Message], list[Schema] | None], str]
"""A chat template: the text of messages and of the tools on offer, None: of none."""


def rendered(render: Render, messages: list[Message], tools: list[Schema]) -> str:
    """The text of a conversation in the form that the template takes: with its tools if it takes
    any, and replies of tools as user messages if not as their own. Raises what the template raises
    for the plainest."""
    converted = tool_replies_as_user(messages)
    forms: list[tuple[list[Message], list[Schema] | None]] = [(messages, None), (converted, None)]
    if tools:
        forms = [(messages, tools), (converted, tools), *forms]
    for form in forms[:-1]:
        try:
            return render(*form)
        except Exception:  # noqa: S112 - templates refuse roles and tools, each in its own way
            continue
    return render(*forms[-1])


def tool_replies_as_user(messages: list[Message]) -> list[Message]:
    """The conversation with tool replies as user messages, as Qwen writes them."""
    converted: list[Message] = []
    for message in messages:
        if message["role"] != "tool":
            converted.append(message)
            continue
        text = f"<tool_response>\n{message.get('content')}\n</tool_response>"
        if converted and converted[-1]["role"] == "user":
            converted[-1] = {"role": "user", "content": f"{converted[-1]['content']}\n{text}"}
        else:
            converted.append({"role": "user", "content": text})
    return converted
