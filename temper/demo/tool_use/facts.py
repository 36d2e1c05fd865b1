"""Facts that nobody can know, and an index that has them."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from services.common.contracts.multi_turn import Tool
from services.common.contracts.rewards import SearchEmReward, WeightedReward
from temper.demo.tool_use.task import Question

INDEX = "demo-facts"
TOWNS = 2400

_CONSONANTS = "bdfgklmnprstvz"
_VOWELS = "aeiou"
_KINDS = ("code", "year", "height", "area", "depth")
_ASKED = ("What is the {kind} of {town}?", "Tell me the {kind} of {town}.")


@dataclass(frozen=True)
class Fact:
    """One passage of the corpus."""

    town: str
    kind: str
    value: str

    @property
    def passage(self) -> str:
        """The words that the index has."""
        return f"The {self.kind} of {self.town} is {self.value}."


class Facts:
    """Questions about made-up towns: what is asked is found by searching for it."""

    name = "search"
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

    def questions(self, count: int, seed: int) -> Iterator[Question]:
        """Questions about different facts; the same for the same seed."""
        choice = random.Random(seed)  # noqa: S311 - reproducible data, no secret
        for fact in choice.sample(facts(), count):
            query = f"{fact.kind} of {fact.town}"
            found = {"result": f'Doc 1 (Title: "{fact.town}")\n{fact.passage}'}
            yield Question(
                choice.choice(_ASKED).format(kind=fact.kind, town=fact.town),
                {"query_list": [query]},
                json.dumps(found, ensure_ascii=False),
                fact.value,
            )


def facts() -> Sequence[Fact]:
    """All facts, one of each kind about each town; always the same."""
    choice = random.Random("facts")  # noqa: S311 - reproducible data, no secret
    towns: dict[str, None] = {}
    while len(towns) < TOWNS:
        syllables = (choice.choice(_CONSONANTS) + choice.choice(_VOWELS) for _ in range(3))
        towns["".join(syllables).capitalize()] = None
    return [
        Fact(town, kind, str(choice.randrange(100, 10_000))) for town in towns for kind in _KINDS
    ]


def corpus_rows() -> Iterator[dict[str, Any]]:
    """The rows of the corpus that the index is built of."""
    for number, fact in enumerate(facts()):
        yield {"id": str(number), "title": fact.town, "text": fact.passage}
