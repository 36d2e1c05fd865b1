"""A trajectory as rewards read it."""

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.trajectories import CallOutcome, Trajectory

_TURN_END = re.compile(
    r"(?:<\|[\w ]{1,40}\|>|</s>|<eos>|<end_of_turn>|<\uff5c[^<>]{1,40}\uff5c>)\s*\Z"
)
_TURN_END_CHARACTERS = 256
_TOKEN_LISTS = {
    *("prompt_token_ids", "response_token_ids", "response_mask", "log_probs", "policy_versions"),
}


@dataclass(frozen=True)
class Sample:
    """What is judged.

    ``texts`` are the model's own, one a turn, without the special tokens that end a turn: what a
    tool inserted is not among them. ``item`` are the fields of its row, as templates name them.
    """

    trajectory: Trajectory
    texts: tuple[str, ...]
    item: JsonObject

    @classmethod
    def of(cls, trajectory: Trajectory, item: JsonObject | None = None) -> "Sample":
        """Read a trajectory; ``item`` null: what the trajectory knows of its row."""
        texts = tuple(without_turn_end(turn.text) for turn in trajectory.turns)
        return cls(trajectory, texts, _item(trajectory) if item is None else item)

    @property
    def gold(self) -> tuple[str, ...]:
        """The right answers."""
        return tuple(self.trajectory.gold)

    @cached_property
    def response(self) -> str:
        """All that the model wrote."""
        return "\n".join(self.texts)

    @property
    def answer(self) -> str:
        """What the model wrote last."""
        return self.texts[-1] if self.texts else ""

    @property
    def tool_turns(self) -> int:
        """Turns in which a tool was called."""
        return sum(
            any(call.outcome is not CallOutcome.DROPPED for call in turn.calls)
            for turn in self.trajectory.turns
        )

    @property
    def calls(self) -> list[JsonObject]:
        """The calls that were run, in OpenAI's shape but for arguments, which are objects."""
        return [
            {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for turn in self.trajectory.turns
            for call in turn.calls
            if call.outcome is not CallOutcome.DROPPED
        ]

    @property
    def conversation(self) -> list[JsonObject]:
        """The prompt's messages, the model's turns, and what it read of each call's reply."""
        messages = list(self.trajectory.messages)
        for turn, text in zip(self.trajectory.turns, self.texts, strict=True):
            messages.append({"role": "assistant", "content": text})
            messages += [
                {"role": "tool", "name": call.name, "content": call.shown}
                for call in turn.calls
                if call.shown is not None
            ]
        return messages

    @property
    def record(self) -> JsonObject:
        """The trajectory as JSON without its lists of tokens, and with all that the model wrote
        as ``response``."""
        fields = self.trajectory.model_dump(mode="json", exclude=_TOKEN_LISTS)
        return {**fields, "response": self.response}

    @cached_property
    def namespace(self) -> JsonObject:
        """What templates and programs find as ``sample``; ``output_json`` is null where the
        model's last turn is no JSON."""
        message = {"role": "assistant", "content": self.answer, "tool_calls": self.calls}
        return {
            "output_text": self.answer,
            "output_json": _decoded(self.answer),
            "output_tools": self.calls,
            "choices": [{"message": message}],
            "response": self.response,
            "prompt": self.prompt,
        }

    @property
    def prompt(self) -> str:
        """The conversation that the model was to go on with, as text."""
        return "\n\n".join(
            f"{message.get('role')}: {message.get('content')}"
            for message in self.trajectory.messages
        )


def without_turn_end(text: str) -> str:
    """A turn without the special tokens, and the white space behind them, that end it."""
    tail = text[-_TURN_END_CHARACTERS:]
    while match := _TURN_END.search(tail):
        tail = tail[: match.start()]
    return text[:-_TURN_END_CHARACTERS] + tail


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _item(trajectory: Trajectory) -> JsonObject:
    gold: object = trajectory.gold[0] if len(trajectory.gold) == 1 else trajectory.gold
    asked = [message for message in trajectory.messages if message.get("role") == "user"]
    question = asked[-1].get("content") if asked else None
    return {
        "messages": trajectory.messages,
        "question": question,
        "prompt": question,
        "gold": gold,
        "answer": gold,
        **trajectory.extra,
    }
