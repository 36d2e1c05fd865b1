"""Data of the evaluation demo: sums like those in training, and longer ones.

``train.jsonl`` teaches two-digit sums. ``benchmark.jsonl`` asks for other two-digit sums and, so
that there are wrong answers to inspect, for three-digit ones.
"""

import random
from dataclasses import dataclass
from pathlib import Path

from examples.demo_1_addition.data import HELDOUT_ROWS, TRAIN_ROWS, question, split_pairs
from examples.demo_1_addition.data import write_data as write_sums
from examples.demo_common.setup import write_rows
from temper.types import Benchmark, NumericGrader

TAUGHT_ITEMS = 150
LONGER_ITEMS = 50
ITEMS = TAUGHT_ITEMS + LONGER_ITEMS

BENCHMARK = Benchmark(question="item.text", answer="item.sum", grader=NumericGrader())
"""An answer is correct if its last number is the sum."""


@dataclass(frozen=True)
class EvaluationData:
    """The files of the demonstration."""

    training: Path
    benchmark: Path


def write_data(folder: Path) -> EvaluationData:
    """Write both files, deterministically."""
    write_sums(folder)
    _, held_out = split_pairs(TRAIN_ROWS, HELDOUT_ROWS, seed=0)
    choice = random.Random(0)  # noqa: S311 - reproducible data, no secret
    longer = [(choice.randint(100, 999), choice.randint(100, 999)) for _ in range(LONGER_ITEMS)]
    benchmark = folder / "benchmark.jsonl"
    write_rows(
        benchmark,
        (
            {"item": {"text": question(a, b), "sum": a + b}}
            for a, b in (*held_out[:TAUGHT_ITEMS], *longer)
        ),
    )
    return EvaluationData(folder / "train.jsonl", benchmark)
