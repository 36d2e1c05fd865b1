"""Writes the data of the demonstration: two-digit addition, worked digit by digit.

    python infra/demo/addition.py DIRECTORY [--train N] [--heldout N] [--seed N]

``train.jsonl`` holds conversations, ``heldout.jsonl`` prompts with the number that the answer has
to end in as ``gold``. No pair of operands, in either order, is in both. The same arguments give
the same files. Only the standard library is needed.
"""

import argparse
import json
import random
from collections.abc import Iterable
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

TRAIN_ROWS = 4000
HELDOUT_ROWS = 300


def question(a: int, b: int) -> str:
    """What the user asks."""
    return f"What is {a} + {b}?"


def worked_answer(a: int, b: int) -> str:
    """The sum, from the last digit to the first, with what is carried."""
    ones = a % 10 + b % 10
    carry = ones // 10
    tens = a // 10 + b // 10 + carry
    return f"{a % 10}+{b % 10}={ones}; {a // 10}+{b // 10}+{carry}={tens}; answer: {a + b}"


def split_pairs(
    train: int, heldout: int, seed: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs to train on and pairs held out, drawn without replacement."""
    choice = random.Random(seed)  # noqa: S311 - reproducible data, no secret
    unordered = list(combinations_with_replacement(range(10, 100), 2))
    choice.shuffle(unordered)
    held = [pair if choice.random() < 0.5 else pair[::-1] for pair in unordered[:heldout]]
    rest = [order for a, b in unordered[heldout:] for order in {(a, b), (b, a)}]
    rest.sort()
    choice.shuffle(rest)
    if len(held) < heldout or len(rest) < train:
        raise SystemExit(f"there are not enough pairs for {train} + {heldout} rows")
    return rest[:train], held


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--train", type=int, default=TRAIN_ROWS)
    parser.add_argument("--heldout", type=int, default=HELDOUT_ROWS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    train, held = split_pairs(arguments.train, arguments.heldout, arguments.seed)
    arguments.directory.mkdir(parents=True, exist_ok=True)
    _write(
        arguments.directory / "train.jsonl",
        (
            {
                "messages": [
                    {"role": "user", "content": question(a, b)},
                    {"role": "assistant", "content": worked_answer(a, b)},
                ]
            }
            for a, b in train
        ),
    )
    _write(
        arguments.directory / "heldout.jsonl",
        (
            {"messages": [{"role": "user", "content": question(a, b)}], "gold": str(a + b)}
            for a, b in held
        ),
    )
    print(f"{arguments.directory}: {len(train)} rows to train on, {len(held)} held out")


if __name__ == "__main__":
    main()
