"""Word problems, and the one tool call that answers each.

The model is to answer with nothing but a call of a calculator, as JSON: the function that the
story means, and its two numbers in their order. Three files of disjoint problems: ``train.jsonl``
shows calls, ``prompts.jsonl`` is for RL, ``heldout.jsonl`` for measuring.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from examples.demo_common.setup import write_rows

TRAIN_ROWS = 160
HELDOUT_ROWS = 200

STORIES: Mapping[str, Sequence[str]] = {
    "add": (
        "{name} has {a} {thing} and buys {b} more. How many are there now?",
        "There are {a} {thing} on one shelf and {b} on another. How many in all?",
        "{name} collected {a} {thing} in May and {b} in June. What is the total?",
        "After {a} {thing}, another {b} arrived. How many arrived altogether?",
    ),
    "subtract": (
        "{name} had {a} {thing} and gave {b} away. How many are left?",
        "Of {a} {thing}, {b} were sold. How many remain?",
        "{name} needs {a} {thing} and has {b}. How many are missing?",
        "{name} owns {a} {thing}, {friend} owns {b}. How many more does {name} own?",
    ),
    "multiply": (
        "There are {a} boxes with {b} {thing} each. How many {thing} are there?",
        "{name} buys {a} packs of {b} {thing}. How many is that?",
        "{name} makes {a} {thing} a day for {b} days. How many are made?",
        "Each of {a} shops orders {b} {thing}. How many are ordered?",
    ),
    "divide": (
        "{a} {thing} are shared equally by {b} children. How many does each get?",
        "{name} packs {a} {thing} into {b} equal bags. How many go into a bag?",
        "{name} spreads {a} {thing} evenly over {b} days. How many is that a day?",
        "{a} {thing} stand in {b} rows of the same length. How long is a row?",
    ),
}
NAMES = ("Ada", "Ben", "Chloe", "Dev", "Elif", "Finn", "Grace", "Hugo", "Ines", "Jonas")
THINGS = ("stamps", "apples", "pencils", "books", "shells", "tickets", "chairs", "plants", "coins")

FUNCTIONS: list[dict[str, Any]] = [
    {
        "name": operation,
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        },
    }
    for operation in STORIES
]
SYSTEM = (
    'Answer with one call, as JSON: {"name": "add", "arguments": {"a": 1, "b": 2}}. '
    f"Functions: {', '.join(STORIES)}."
)


@dataclass(frozen=True)
class CallingData:
    """The files of the demonstration."""

    training: Path
    prompts: Path
    held_out: Path


@dataclass(frozen=True)
class Problem:
    """A word problem, and the function and the arguments of its call."""

    text: str
    operation: str
    arguments: dict[str, int]


def write_data(folder: Path, prompts: int, seed: int) -> CallingData:
    """Write the data of a seed, deterministically; ``prompts`` is the number of problems for RL."""
    folder.mkdir(parents=True, exist_ok=True)
    data = CallingData(folder / "train.jsonl", folder / "prompts.jsonl", folder / "heldout.jsonl")
    stream = problems(seed)
    write_rows(data.held_out, (prompt(each) for each in islice(stream, HELDOUT_ROWS)))
    write_rows(data.training, (demonstration(each) for each in islice(stream, TRAIN_ROWS)))
    write_rows(data.prompts, (prompt(each) for each in islice(stream, prompts)))
    return data


def problems(seed: int) -> Iterator[Problem]:
    """Yield distinct problems without end, the operations in turn."""
    choice = random.Random(seed)  # noqa: S311 - reproducible data, no secret
    seen: set[str] = set()
    while True:
        for operation in STORIES:
            problem = _problem(operation, choice)
            if problem.text not in seen:
                seen.add(problem.text)
                yield problem


def _problem(operation: str, choice: random.Random) -> Problem:
    a, b = choice.randint(12, 99), choice.randint(2, 11)
    if operation == "divide":
        a = b * choice.randint(3, 40)
    elif operation == "multiply" and choice.random() < 0.5:
        a, b = b, a
    name, friend = choice.sample(NAMES, 2)
    story = choice.choice(STORIES[operation])
    text = story.format(a=a, b=b, name=name, friend=friend, thing=choice.choice(THINGS))
    return Problem(text, operation, {"a": a, "b": b})


def prompt(problem: Problem) -> dict[str, Any]:
    """A row that is graded: the conversation, the functions and the only right call."""
    allowed = {name: [value] for name, value in problem.arguments.items()}
    return {
        "messages": _conversation(problem),
        "function": FUNCTIONS,
        "ground_truth": [{problem.operation: allowed}],
    }


def demonstration(problem: Problem) -> dict[str, Any]:
    """A row of the supervised fine-tune."""
    call = {"name": problem.operation, "arguments": problem.arguments}
    answer = {"role": "assistant", "content": json.dumps(call)}
    return {"messages": [*_conversation(problem), answer]}


def _conversation(problem: Problem) -> list[dict[str, Any]]:
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": problem.text},
    ]
