"""Splits of a benchmark: a search part, whose scores may guide work, and a final part."""

import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from services.contracts.evaluation.benchmarks import Benchmark, SplitName
from services.datasets.reader import open_records
from services.datasets.record import JsonValue, Problem, RowError, UnreadableFile, shown
from services.metrics.extraction import at_path

MOST_ROWS = 100
"""Maximum rows per sub-task in each part."""
SEED = 42


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of each part, counted from 0, in order of the file."""

    search: list[int]
    final: list[int]

    def part(self, name: SplitName) -> list[int]:
        """The rows of the part with this name."""
        return self.search if name == "search" else self.final


def by_subtask(subtasks: Iterable[tuple[str, ...]], *, shuffles: bool) -> Split:
    """The first and the last ``min(100, n // 2)`` of the n rows of each sub-task.

    ``subtasks`` has the sub-task of each row. With ``shuffles`` the rows of a sub-task are shuffled
    first, so that its parts are the same whatever other sub-tasks the file holds.
    """
    rows: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for row, subtask in enumerate(subtasks):
        rows[subtask].append(row)
    search: list[int] = []
    final: list[int] = []
    for found in rows.values():
        ordered = shuffled(found) if shuffles else found
        size = min(MOST_ROWS, len(ordered) // 2)
        search += ordered[:size]
        final += ordered[len(ordered) - size :]
    return Split(sorted(search), sorted(final))


def shuffled(rows: Sequence[int]) -> list[int]:
    """The rows in the order of a shuffle with seed 42, the same on every machine.

    The shuffle of R. A. Fisher and F. Yates in the form of R. Durstenfeld (1964): from the last
    place to the second, the row at place i (counted from 0) changes places with that at
    ``floor(u * (i + 1))``. The u are the successive numbers of the Mersenne Twister MT19937 in
    [0, 1) with 53 bits, which Python promises not to change for a seed, other than its own shuffle.
    """
    order = list(rows)
    generator = random.Random(SEED)  # noqa: S311 - reproducible, not secret
    for place in range(len(order) - 1, 0, -1):
        other = int(generator.random() * (place + 1))
        order[place], order[other] = order[other], order[place]
    return order


def by_question(questions: Sequence[str], final_share: float) -> Split:
    """A share of the questions for the final part, by their hashes.

    Equal questions go to the same part, whatever the order of the rows.
    """
    distinct = sorted(set(questions), key=_hash)
    final = set(distinct[: math.ceil(len(distinct) * final_share)])
    rows = range(len(questions))
    return Split(
        [row for row in rows if questions[row] not in final],
        [row for row in rows if questions[row] in final],
    )


def _hash(question: str) -> str:
    return hashlib.sha256(question.encode()).hexdigest()


def subtask_of(row: JsonValue, benchmark: Benchmark | None) -> tuple[str, ...]:
    """The name of a row's sub-task; raises a `RowError` that names the path at fault."""
    names = []
    for path in benchmark.subtasks if benchmark else ():
        try:
            name = at_path(row, path)
        except LookupError:
            raise RowError(f"{path} is missing") from None
        if not isinstance(name, str):
            raise RowError(f"{path} is {shown(name)}, not a string")
        names.append(name)
    return tuple(names)


def rows_of_part(path: Path, benchmark: Benchmark | None, name: SplitName) -> list[int]:
    """The rows of a file that belong to a part; none of sub-tasks with a single row.

    Raises `UnreadableFile` at the first row that has no sub-task.
    """
    shuffles = benchmark is not None and benchmark.shuffles
    return by_subtask(_subtasks(path, benchmark), shuffles=shuffles).part(name)


def _subtasks(path: Path, benchmark: Benchmark | None) -> Iterable[tuple[str, ...]]:
    for record in open_records(path):
        if isinstance(record, Problem):
            raise UnreadableFile(record.message, row=record.row)
        try:
            yield subtask_of(record.value, benchmark)
        except RowError as error:
            raise UnreadableFile(error.message, row=record.row) from None
