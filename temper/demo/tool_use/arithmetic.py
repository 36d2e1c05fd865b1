"""Arithmetic that a tiny model cannot do in its head, and a Python that can."""

import random
from collections.abc import Iterator

from services.contracts.multi_turn import Tool
from services.contracts.rewards import RetoolReward, WeightedReward
from temper.demo.tool_use.task import Question

_ASKED = ("What is {}?", "Calculate {}.", "How much is {}?")


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

    def questions(self, count: int, seed: int) -> Iterator[Question]:
        """Questions, none of which comes twice; the same for the same seed."""
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
            text = choice.choice(_ASKED).format(expression)
            yield Question(text, {"code": expression}, f"{value}\n", str(value))
