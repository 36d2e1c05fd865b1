"""Data of the addition demo: two-digit sums, worked digit by digit.

``train.jsonl`` holds conversations; ``heldout.jsonl`` holds prompts with the expected sum as
``gold``. No pair of operands is in both, in either order.
"""

import random
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

from examples.demo_common.setup import write_rows

TRAIN_ROWS = 4000
HELDOUT_ROWS = 300


def question(a: int, b: int) -> str:
    """The user's question."""
    return f"What is {a} + {b}?"


def worked_answer(a: int, b: int) -> str:
    """The sum, from the last digit to the first, with carries."""
    ones = a % 10 + b % 10
    carry = ones // 10
    tens = a // 10 + b // 10 + carry
    return f"{a % 10}+{b % 10}={ones}; {a // 10}+{b // 10}+{carry}={tens}; answer: {a + b}"


def split_pairs(
    train: int, heldout: int, seed: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Draw training pairs and held-out pairs without replacement."""
    choice = random.Random(seed)  # noqa: S311 - reproducible data, no secret
    unordered = list(combinations_with_replacement(range(10, 100), 2))
    choice.shuffle(unordered)
    held = [pair if choice.random() < 0.5 else pair[::-1] for pair in unordered[:heldout]]
    rest = [order for a, b in unordered[heldout:] for order in {(a, b), (b, a)}]
    rest.sort()
    choice.shuffle(rest)
    if len(held) < heldout or len(rest) < train:
        raise ValueError(f"not enough pairs for {train} + {heldout} rows")
    return rest[:train], held


def write_data(
    folder: Path, train: int = TRAIN_ROWS, heldout: int = HELDOUT_ROWS, seed: int = 0
) -> None:
    """Write both files, deterministically."""
    trained, held = split_pairs(train, heldout, seed)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "train.jsonl", (_conversation(a, b) for a, b in trained))
    write_rows(folder / "heldout.jsonl", ({**_prompt(a, b), "gold": str(a + b)} for a, b in held))


def _prompt(a: int, b: int) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question(a, b)}]}


def _conversation(a: int, b: int) -> dict[str, Any]:
    answer = {"role": "assistant", "content": worked_answer(a, b)}
    return {"messages": [*_prompt(a, b)["messages"], answer]}
