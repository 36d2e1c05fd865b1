"""The model's turns and the tools' latencies in the benchmark."""

import json
import math
import random
from dataclasses import dataclass, replace

from services.contracts.base import JsonObject
from services.rollouts.prompts import Prompt

MEDIAN_SECONDS, SPREAD = 0.3, 0.6
SLOW_SHARE, SLOW_SECONDS = 1 / 50, 5.0
MOST_CALLS = 4
TOOL = "code_interpreter"

SCHEMA: JsonObject = {
    "type": "function",
    "function": {
        "name": TOOL,
        "description": "Runs Python code and gives what it prints.",
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "The code to run."}},
            "required": ["code"],
        },
    },
}


@dataclass(frozen=True)
class Conversation:
    """A question and the model's turns, of which all but the last call a tool once; ``latencies``
    are the seconds of these calls."""

    prompt: Prompt
    turns: tuple[str, ...]
    latencies: tuple[float, ...]

    @property
    def session(self) -> str:
        """Return the id of its trajectory."""
        return str(self.prompt.index)

    def without_latency(self, run: int) -> "Conversation":
        """Return a copy with zero-latency tools, and a question of the same length that no cache
        shares with another ``run`` (below 100)."""
        (message,) = self.prompt.messages
        asked = {**message, "content": f"Run {run:02d}. {message['content']}"}
        prompt = replace(self.prompt, messages=(asked,))
        return replace(self, prompt=prompt, latencies=(0.0,) * len(self.latencies))


def drawn(count: int, seed: int) -> list[Conversation]:
    """Draw conversations of 1 to 4 calls; latencies are log-normal around 300 ms, and one in fifty
    takes 5 s."""
    source = random.Random(seed)
    return [_conversation(index, source) for index in range(count)]


def _conversation(index: int, source: random.Random) -> Conversation:
    calls = source.randint(1, MOST_CALLS)
    numbers = [source.randint(1000, 999_999) for _ in range(calls + 1)]
    question = f"What is {' + '.join(map(str, numbers))}? Give the sum in \\boxed{{}}."
    turns = [_call(index, position, numbers) for position in range(calls)]
    answer = f"Added up, the numbers give {sum(numbers)}. The answer is \\boxed{{{sum(numbers)}}}."
    return Conversation(
        prompt=Prompt(index, ({"role": "user", "content": question},), (str(sum(numbers)),), {}),
        turns=(*turns, answer),
        latencies=tuple(_latency(source) for _ in range(calls)),
    )


def _call(index: int, position: int, numbers: list[int]) -> str:
    code = f"total = {sum(numbers[: position + 1])}\ntotal += {numbers[position + 1]}\nprint(total)"
    call = {"name": TOOL, "arguments": {"code": code, "place": [index, position]}}
    return (
        f"I add the number at place {position + 2} to what I have so far.\n"
        f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
    )


def _latency(source: random.Random) -> float:
    if source.random() < SLOW_SHARE:
        return SLOW_SECONDS
    return source.lognormvariate(math.log(MEDIAN_SECONDS), SPREAD)
