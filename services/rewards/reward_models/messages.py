"""Conversations in the form that reward models read."""

from typing import Any

Message = dict[str, Any]


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
