"""Facts that nobody can know, and an index that has them."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from services.contracts.multi_turn import Tool
from services.contracts.rewards import SearchEmReward, WeightedReward
from temper.demo.tool_use.task import Question

INDEX = "demo-facts"
STATIONS = 2400

_KINDS = ("code", "year", "height", "area", "depth")
_ASKED = ("What is the {kind} of station {station}?", "Tell me the {kind} of station {station}.")


@dataclass(frozen=True)
class Fact:
    """One passage of the corpus."""

    station: int
    kind: str
    value: str

    @property
    def passage(self) -> str:
        """The words that the index has."""
        return f"The {self.kind} of {self.name} is {self.value}."

    @property
    def name(self) -> str:
        """Of what it is about."""
        return f"station {self.station}"


class Facts:
    """Questions about made-up stations: what is asked is found by searching for it."""

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

    def questions(self, count: int, seed: int) -> Iterator[Question]:
        """Questions about different facts; the same for the same seed."""
        choice = random.Random(seed)  # noqa: S311 - reproducible data, no secret
        for fact in choice.sample(facts(), count):
            query = f"{fact.kind} of {fact.name}"
            found = {"result": f'Doc 1 (Title: "{fact.name}")\n{fact.passage}'}
            yield Question(
                choice.choice(_ASKED).format(kind=fact.kind, station=fact.station),
                {"query_list": [query]},
                json.dumps(found, ensure_ascii=False),
                fact.value,
            )


def facts() -> Sequence[Fact]:
    """All facts, one of each kind about each station; always the same.

    Numbers of stations have four digits and values three, so that none is found for another.
    """
    choice = random.Random("facts")  # noqa: S311 - reproducible data, no secret
    stations = choice.sample(range(1000, 10_000), STATIONS)
    return [
        Fact(station, kind, str(choice.randrange(100, 1000)))
        for station in stations
        for kind in _KINDS
    ]


def corpus_rows() -> Iterator[dict[str, Any]]:
    """The rows of the corpus that the index is built of."""
    for number, fact in enumerate(facts()):
        yield {"id": str(number), "title": fact.name, "text": fact.passage}
