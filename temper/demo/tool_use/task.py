"""What a model is taught: questions that take a tool, and conversations that answer them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from services.contracts.multi_turn import Tool
from services.contracts.rewards import WeightedReward

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Question:
    """What is asked, the arguments of the call that helps, what the tool then says, and the
    answer."""

    text: str
    arguments: dict[str, Any]
    reply: str
    answer: str


class Task(Protocol):
    """A kind of question and the tool that it takes."""

    @property
    def name(self) -> str:
        """Short, of the letters of a model's name."""
        ...

    @property
    def system(self) -> str:
        """What the model is told before each question."""
        ...

    @property
    def tool(self) -> Tool:
        """With the schema that the model reads."""
        ...

    @property
    def conversations(self) -> int:
        """How many the cold start shows: enough to begin with, and not to have learned it all."""
        ...

    @property
    def reward(self) -> WeightedReward:
        """What an answer is rewarded for."""
        ...

    def questions(self, count: int, seed: int) -> Iterator[Question]:
        """Questions, none of which comes twice; the same for the same seed."""
        ...


def prompt_row(task: Task, question: Question) -> dict[str, Any]:
    """A row of a file of prompts."""
    return {"messages": _prompt(task, question), "gold": question.answer}


def conversation_row(task: Task, question: Question) -> dict[str, Any]:
    """A row of a training file: a call, the tool's reply, and the answer in a box."""
    schema: dict[str, Any] = task.tool.tool_schema or {}
    function = {"name": schema["function"]["name"], "arguments": json.dumps(question.arguments)}
    call = {"id": "call_0", "type": "function", "function": function}
    return {
        "messages": [
            *_prompt(task, question),
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": question.reply},
            {"role": "assistant", "content": f"\\boxed{{{question.answer}}}"},
        ],
        "tools": [schema],
    }


def _prompt(task: Task, question: Question) -> Messages:
    return [
        {"role": "system", "content": task.system},
        {"role": "user", "content": question.text},
    ]
