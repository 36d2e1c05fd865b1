"""Compares the items of an evaluation with the files that its model was trained on."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from services.contracts.evaluation.results import TrainingOverlap
from services.core.process.reporter import Reporter
from services.datasets.reader import open_records
from services.datasets.record import JsonValue, Problem, UnreadableFile
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.evaluation.spec import TrainingFile
from services.metrics.contamination import find_contamination

MAX_FILE_BYTES = 256 << 20
MAX_ITEMS = 20_000
"""Maximum number of compared items; their n-grams are kept in memory."""


def questions_of(samples: Iterable[EvaluationSample]) -> list[str]:
    """What tells each item from others: its question, with its options if another item asks the
    same."""
    asked = [(sample.question, sample.options) for sample in samples]
    number = Counter(question for question, _ in asked)
    return [
        question if number[question] == 1 else question + options for question, options in asked
    ]


async def training_overlaps(
    files: Sequence[TrainingFile], questions: Sequence[str], reporter: Reporter
) -> list[TrainingOverlap]:
    """How many of the questions each file holds, whole or by 13 words in a row.

    What a file holds is reported as a warning. Files that are too large or cannot be read are
    reported and left out: they do not fail an evaluation whose answers are there.
    """
    overlaps = []
    for file in files:
        overlap = await asyncio.to_thread(_compare, file, questions[:MAX_ITEMS], reporter)
        if overlap is None:
            continue
        overlaps.append(overlap)
        if overlap.items:
            reporter.message(
                f"{overlap.items} of {overlap.compared} items are in {file.id}"
                f" ({file.source.filename}), which the model was trained on",
                level="warn",
            )
    return overlaps


def _compare(
    file: TrainingFile, questions: Sequence[str], reporter: Reporter
) -> TrainingOverlap | None:
    try:
        size = file.source.path.stat().st_size
        if size > MAX_FILE_BYTES:
            problem = f"has more than {MAX_FILE_BYTES >> 20} MiB"
        else:
            report = find_contamination(questions, _rows(file))
            return TrainingOverlap(
                file=file.id, compared=len(questions), items=len(report.found), rows=report.rows
            )
    except (OSError, UnreadableFile) as error:
        problem = f"cannot be read: {error}"
    reporter.message(f"{file.id} {problem}; its rows were not compared with the items")
    return None


def _rows(file: TrainingFile) -> Iterator[JsonValue]:
    for record in open_records(file.source.path):
        if not isinstance(record, Problem):
            yield record.value
