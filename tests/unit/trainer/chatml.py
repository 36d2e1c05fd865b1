"""Chat templates in plain Python, and conversations to render with them."""

import json
from typing import Any

from hypothesis import strategies as st

from services.datasets.rendering.text_encoding import EncodedText

Messages = list[dict[str, Any]]


def chatml(messages: Messages, tools: list[dict[str, Any]], *, prompt: bool) -> str:
    """An append-only template: earlier turns render the same in every prefix."""
    text = f"[tools]{json.dumps(tools)}[end]\n" if tools else ""
    for message in messages:
        calls = "".join(
            f"<call>{json.dumps(call['function'], sort_keys=True)}</call>"
            for call in message.get("tool_calls", ())
        )
        text += f"[{message['role']}]\n{message['content']}{calls}[end]\n"
    return text + ("[assistant]\n" if prompt else "")


def forgetful(messages: Messages, tools: list[dict[str, Any]], *, prompt: bool) -> str:
    """Drops the reasoning of every turn but the last, as many templates do."""
    kept = []
    for index, message in enumerate(messages):
        last = index == len(messages) - 1
        thought = f"<think>{message.get('reasoning_content', '')}</think>"
        shows = message["role"] == "assistant" and last
        kept.append(message | {"content": (thought if shows else "") + message["content"]})
    return chatml(kept, tools, prompt=prompt)


class Characters:
    """A tokenizer of single characters."""

    special: frozenset[str] = frozenset()

    def __call__(self, text: str) -> EncodedText:
        places = range(len(text))
        return EncodedText(text, list(map(ord, text)), places, [place + 1 for place in places])


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20).map(
    lambda text: f"«{text}»"
)
CALLS = st.lists(
    st.tuples(st.sampled_from(["add", "search"]), st.dictionaries(TEXT, st.integers(), max_size=2)),
    min_size=1,
    max_size=3,
)


@st.composite
def chat_rows(draw: st.DrawFn) -> dict[str, Any]:
    """Valid rows in chat format, some with parallel tool calls."""
    messages: Messages = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(TEXT)})
    for turn in range(draw(st.integers(1, 3))):
        messages.append({"role": "user", "content": draw(TEXT)})
        if draw(st.booleans()):
            messages += _tool_turn(draw(CALLS), f"t{turn}")
        messages.append({"role": "assistant", "content": draw(TEXT)})
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}]
    return {"messages": messages} | ({"tools": tools} if draw(st.booleans()) else {})


def _tool_turn(calls: list[tuple[str, dict[str, int]]], prefix: str) -> Messages:
    asked = [
        {
            "id": f"{prefix}-{index}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for index, (name, arguments) in enumerate(calls)
    ]
    answers = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"result {call['id']}"}
        for call in asked
    ]
    return [{"role": "assistant", "content": None, "tool_calls": asked}, *answers]
