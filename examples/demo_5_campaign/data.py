"""Data of the campaign demo: the same sums, with answers of different quality.

``benchmark.jsonl`` holds sums that are in no dataset. The caller assigns qualities to datasets;
their names do not reveal them.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from examples.demo_1_addition.data import question, split_pairs, worked_answer
from examples.demo_common.setup import write_rows

TRAIN_ROWS = 4000
ITEMS = 120


class Quality(StrEnum):
    """Quality of a dataset's answers."""

    RIGHT = "right"
    UNCARRIED = "without carries"  # about half of the sums are right
    SHUFFLED = "shuffled"  # each sum has the answer to another one


ORDER = (Quality.UNCARRIED, Quality.RIGHT, Quality.SHUFFLED)
"""The qualities of the datasets of loops 1, 2 and 3."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class CampaignData:
    """The files of the demo; datasets by name."""

    benchmark: Path
    datasets: Mapping[str, Path]


def write_data(
    folder: Path, qualities: Sequence[Quality] = ORDER, rows: int = TRAIN_ROWS
) -> CampaignData:
    """Write the benchmark and a dataset of each quality, deterministically."""
    trained, held = split_pairs(rows, ITEMS, seed=0)
    folder.mkdir(parents=True, exist_ok=True)
    benchmark = folder / "benchmark.jsonl"
    write_rows(benchmark, ({"prompt": question(a, b), "gold": str(a + b)} for a, b in held))
    datasets: dict[str, Path] = {}
    for number, quality in enumerate(qualities, 1):
        path = datasets[f"sums{number}"] = folder / f"sums{number}.jsonl"
        answers = _ANSWERS[quality](trained)
        write_rows(
            path,
            (
                {"question": question(a, b), "answer": answer}
                for (a, b), answer in zip(trained, answers, strict=True)
            ),
        )
    return CampaignData(benchmark, datasets)


def uncarried_answer(a: int, b: int) -> str:
    """The worked sum without the carry from the ones to the tens."""
    ones, tens = a % 10 + b % 10, a // 10 + b // 10
    answer = 10 * tens + ones % 10
    return f"{a % 10}+{b % 10}={ones}; {a // 10}+{b // 10}+0={tens}; answer: {answer}"


def _right(pairs: Sequence[Pair]) -> list[str]:
    return [worked_answer(a, b) for a, b in pairs]


def _uncarried(pairs: Sequence[Pair]) -> list[str]:
    return [uncarried_answer(a, b) for a, b in pairs]


def _shuffled(pairs: Sequence[Pair]) -> list[str]:
    answers = _right(pairs)
    random.Random(0).shuffle(answers)  # noqa: S311 - reproducible data, no secret
    return answers


_ANSWERS: Mapping[Quality, Callable[[Sequence[Pair]], list[str]]] = {
    Quality.RIGHT: _right,
    Quality.UNCARRIED: _uncarried,
    Quality.SHUFFLED: _shuffled,
}
