"""The benchmark of a campaign: its items, and their division into a search and a final part."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.benchmarks import Benchmark, benchmark_of
from services.contracts.campaigns import MIN_ITEMS, CreateCampaign
from services.contracts.errors import InvalidRequest
from services.datasets.questions import question_of
from services.datasets.reader import open_records
from services.datasets.record import Problem, RowError
from services.metrics.contamination import Contamination
from services.metrics.extraction import at_path

MAX_ITEMS = 50_000
SEARCH, FINAL = "search", "final"


@dataclass(frozen=True)
class Item:
    """A row of the benchmark and the text of its question."""

    row: JsonObject
    question: str


@dataclass(frozen=True)
class Parts:
    """The items whose scores the LLM sees, and those it never sees."""

    search: list[Item]
    final: list[Item]


class KnownItems:
    """Finds items of either part in training data. The LLM may be told of those of ``search``."""

    def __init__(self, parts: Parts) -> None:
        self.search = Contamination(item.question for item in parts.search)
        self.final = Contamination(item.question for item in parts.final)


def read_items(path: Path, request: CreateCampaign) -> list[Item]:
    """The items of a campaign's file; raises `InvalidRequest` that names the row at fault."""
    benchmark = None if request.benchmark is None else benchmark_of(request.benchmark)
    items: list[Item] = []
    for record in open_records(path):
        if isinstance(record, Problem):
            raise InvalidRequest(str(record), param="file")
        if len(items) == request.benchmark_rows:
            break
        if len(items) == MAX_ITEMS:
            raise InvalidRequest(f"more than {MAX_ITEMS:,} rows", param="file")
        try:
            if not isinstance(record.value, dict):
                raise RowError("is not an object")
            items.append(Item(record.value, _question(record.value, benchmark)))
        except RowError as error:
            raise InvalidRequest(f"row {record.row}: {error.message}", param="file") from None
    return items


def _question(row: JsonObject, benchmark: Benchmark | None) -> str:
    if benchmark is None:
        return _text(question_of(row)[1])
    try:
        question = at_path(row, benchmark.question)
    except LookupError:
        question = None
    if not isinstance(question, str) or not question.strip():
        raise RowError(f"{benchmark.question} is not a text")
    return question


def _text(question: str | list[JsonObject]) -> str:
    if isinstance(question, str):
        return question
    return "\n".join(str(message.get("content") or "") for message in question)


def divide(items: Sequence[Item], final_share: float) -> Parts:
    """Divide items by the hash of their question: equal questions come into the same part.

    Raises `InvalidRequest` when a part has fewer than `MIN_ITEMS`.
    """
    questions = sorted({item.question for item in items}, key=_hash)
    final = set(questions[: math.ceil(len(questions) * final_share)])
    parts = Parts(
        [item for item in items if item.question not in final],
        [item for item in items if item.question in final],
    )
    if min(len(parts.search), len(parts.final)) < MIN_ITEMS:
        raise InvalidRequest(
            f"{len(parts.search)} search and {len(parts.final)} final items; each part needs "
            f"{MIN_ITEMS}",
            param="file",
        )
    return parts


def _hash(question: str) -> str:
    return hashlib.sha256(question.encode()).hexdigest()


def write_rows(path: Path, rows: Sequence[JsonObject]) -> None:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
