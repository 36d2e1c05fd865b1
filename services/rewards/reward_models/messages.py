"""Conversations in the form that reward models read."""

from typing import Any

Message = dict[str, Any]


def told_to_user(messages: list[Message]) -> list[Message]:
    """The conversation with what tools replied as messages of the user, as Qwen writes them."""
    told: list[Message] = []
    for message in messages:
        if message["role"] != "tool":
            told.append(message)
            continue
        text = f"<tool_response>\n{message.get('content')}\n</tool_response>"
        if told and told[-1]["role"] == "user":
            told[-1] = {"role": "user", "content": f"{told[-1]['content']}\n{text}"}
        else:
            told.append({"role": "user", "content": text})
    return told
