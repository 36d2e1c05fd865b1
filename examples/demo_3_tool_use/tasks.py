"""Tasks: questions that need a tool, and conversations that answer them."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from temper.types import RetoolReward, SearchEmReward, Tool, WeightedReward

Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class ToolQuestion:
    """A question, the arguments of the tool call, the tool's result, and the answer."""

    text: str
    arguments: dict[str, Any]
    result: str
    answer: str


class ToolTask(Protocol):
    """A kind of question and the tool that it needs."""

    @property
    def name(self) -> str:
        """Short name, valid in model names."""
        ...

    @property
    def system(self) -> str:
        """System prompt."""
        ...

    @property
    def tool(self) -> Tool:
        """The tool, with the schema that the model sees."""
        ...

    @property
    def conversations(self) -> int:
        """Size of the cold start: enough to call the tool, too few to master the task."""
        ...

    @property
    def reward(self) -> WeightedReward:
        """The reward of an answer."""
        ...

    def questions(self, count: int, seed: int) -> Iterator[ToolQuestion]:
        """Yield distinct questions, deterministically for a seed."""
        ...


def prompt_row(task: ToolTask, question: ToolQuestion) -> dict[str, Any]:
    """A row of a prompt file."""
    return {"messages": _prompt(task, question), "gold": question.answer}


def conversation_row(task: ToolTask, question: ToolQuestion) -> dict[str, Any]:
    """A row of a training file: a call, the tool's result, and the boxed answer."""
    schema: dict[str, Any] = task.tool.tool_schema or {}
    function = {"name": schema["function"]["name"], "arguments": json.dumps(question.arguments)}
    call = {"id": "call_0", "type": "function", "function": function}
    return {
        "messages": [
            *_prompt(task, question),
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": question.result},
            {"role": "assistant", "content": f"\\boxed{{{question.answer}}}"},
        ],
        "tools": [schema],
    }


def _prompt(task: ToolTask, question: ToolQuestion) -> Messages:
    return [
        {"role": "system", "content": task.system},
        {"role": "user", "content": question.text},
    ]


_CALCULATIONS = ("What is {}?", "Calculate {}.", "How much is {}?")


class Arithmetic:
    """Sums, differences and products of numbers of two or three digits."""

    name = "retool"
    conversations = 8000
    system = "Use the tool to calculate. Put the answer in \\boxed{}."
    tool = Tool(
        class_name="retool",
        tool_schema={
            "type": "function",
            "function": {
                "name": "code_interpreter",
                "description": "Run Python code.",
                "parameters": {
                    "type": "object",
                    "properties": {"code": {"type": "string"}},
                    "required": ["code"],
                },
            },
        },
    )
    reward = WeightedReward(name="answer", reward=RetoolReward())

    def questions(self, count: int, seed: int) -> Iterator[ToolQuestion]:
        """Yield distinct questions, deterministically for a seed."""
        choice = random.Random(seed)  # noqa: S311 - reproducible data, no secret
        seen: set[str] = set()
        while len(seen) < count:
            operator = choice.choice("+-*")
            a, b = (choice.randrange(10 ** choice.randint(2, 3)) for _ in range(2))
            expression = f"{a} {operator} {b}"
            if expression in seen:
                continue
            seen.add(expression)
            value = {"+": a + b, "-": a - b, "*": a * b}[operator]
            text = choice.choice(_CALCULATIONS).format(expression)
            yield ToolQuestion(text, {"code": expression}, f"{value}\n", str(value))


INDEX = "demo-facts"
STATIONS = 2400

_KINDS = ("code", "year", "height", "area", "depth")
_LOOKUPS = ("What is the {kind} of station {station}?", "Tell me the {kind} of station {station}.")


@dataclass(frozen=True)
class Fact:
    """A passage of the corpus."""

    station: int
    kind: str
    value: str

    @property
    def passage(self) -> str:
        """The indexed text."""
        return f"The {self.kind} of {self.name} is {self.value}."

    @property
    def name(self) -> str:
        """The subject."""
        return f"station {self.station}"


class Facts:
    """Questions about invented stations; the answers are found by searching."""

    name = "search"
    conversations = 5000
    system = "Use the tool to search. Put the answer in \\boxed{}."
    tool = Tool(
        class_name="search",
        config={"index": INDEX, "topk": 1},
        tool_schema={
            "type": "function",
            "function": {
                "name": "search",
                "description": "Search passages.",
                "parameters": {
                    "type": "object",
                    "properties": {"query_list": {"type": "array", "items": {"type": "string"}}},
                    "required": ["query_list"],
                },
            },
        },
    )
    reward = WeightedReward(name="answer", reward=SearchEmReward())

    def questions(self, count: int, seed: int) -> Iterator[ToolQuestion]:
        """Yield questions about distinct facts, deterministically for a seed."""
        choice = random.Random(seed)  # noqa: S311 - reproducible data, no secret
        for fact in choice.sample(facts(), count):
            query = f"{fact.kind} of {fact.name}"
            found = {"result": f'Doc 1 (Title: "{fact.name}")\n{fact.passage}'}
            yield ToolQuestion(
                choice.choice(_LOOKUPS).format(kind=fact.kind, station=fact.station),
                {"query_list": [query]},
                json.dumps(found, ensure_ascii=False),
                fact.value,
            )


def facts() -> Sequence[Fact]:
    """All facts, one of each kind per station; always the same.

    Station numbers have four digits and values three, so that a search cannot confuse them.
    """
    choice = random.Random("facts")  # noqa: S311 - reproducible data, no secret
    stations = choice.sample(range(1000, 10_000), STATIONS)
    return [
        Fact(station, kind, str(choice.randrange(100, 1000)))
        for station in stations
        for kind in _KINDS
    ]


def corpus_rows() -> Iterator[dict[str, Any]]:
    """Yield the corpus rows of the index."""
    for number, fact in enumerate(facts()):
        yield {"id": str(number), "title": fact.name, "text": fact.passage}
