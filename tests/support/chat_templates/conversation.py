"""A conversation with tools, as messages and as a model would write it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.support.chat_templates.families import Call, Family

QUESTION: dict[str, Any] = {"role": "user", "content": "What is 2 to the power of 100, naïvely?"}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Runs a <program> & prints its output.",
            "parameters": {
                "type": "object",
                "properties": {"code": {"type": "string"}, "n": {"type": "integer"}},
                "required": ["code"],
            },
        },
    }
    for name in ("python", "shell")
]


def call(number: int, code: str) -> Call:
    """A call with an id of nine characters, as Mistral's models write them."""
    function = {"name": "python", "arguments": {"code": code, "n": number}}
    return {"id": f"abcdef{number:03d}", "type": "function", "function": function}


@dataclass(frozen=True)
class ToolTurn:
    """A turn with calls and the tools' replies; ``thought`` for families that reason."""

    calls: Sequence[Call]
    replies: Sequence[str]
    text: str = ""
    thought: str = ""

    def messages(self) -> list[dict[str, Any]]:
        """The turn and its replies as messages."""
        turn: dict[str, Any] = {"role": "assistant", "content": self.text}
        turn["tool_calls"] = list(self.calls)
        if self.thought:
            turn["reasoning_content"] = self.thought
        replies = [
            {"role": "tool", "content": reply, "tool_call_id": made["id"]}
            for made, reply in zip(self.calls, self.replies, strict=True)
        ]
        return [turn, *replies]

    def written(self, family: Family) -> str:
        """The text that a model of the family writes, with the token that ends it."""
        thought = f"<think>\n{self.thought}\n</think>\n\n" if self.thought else ""
        text = f"{self.text}\n" if self.text else ""
        return thought + text + family.calls(list(self.calls)) + family.ends[0]


@dataclass(frozen=True)
class Conversation:
    """A question, turns that call, and an answer."""

    turns: Sequence[ToolTurn]
    answer: str = "It is 1267650600228229401496703205376."
    before: Sequence[dict[str, Any]] = field(default_factory=lambda: (QUESTION,))

    def messages(self, turns: int | None = None) -> list[dict[str, Any]]:
        """The messages up to the replies of the first turns; of all by default."""
        played = self.turns if turns is None else self.turns[:turns]
        return [*self.before, *(message for turn in played for message in turn.messages())]
