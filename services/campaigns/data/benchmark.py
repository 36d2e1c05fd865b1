"""The benchmark of a campaign: its items, split into a search part and a final part."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.campaigns.campaigns import MIN_ITEMS, CreateCampaign
from services.contracts.errors import InvalidRequest
from services.contracts.evaluation.benchmarks import Benchmark, benchmark_of
from services.datasets.questions import question_of
from services.datasets.reader import open_records
from services.datasets.record import Problem, RowError
from services.datasets.splits import by_question, by_subtask, subtask_of
from services.metrics.contamination import AlteredItems, Contamination, said_by_users
from services.metrics.extraction import at_path

MAX_ITEMS = 50_000
SEARCH, FINAL = "search", "final"


@dataclass(frozen=True)
class Item:
    """A row of the benchmark, its question text, by which it is divided, and its sub-task for
    published splits. ``said`` is what users say in the messages of a row without a benchmark."""

    row: JsonObject
    question: str
    subtask: tuple[str, ...] = ()
    said: str = ""

    @property
    def asked(self) -> str:
        """What training data may not hold."""
        return self.said or self.question


@dataclass(frozen=True)
class Parts:
    """The search part, whose scores the LLM sees, and the final part, which it never sees."""

    search: list[Item]
    final: list[Item]


class ItemsInData:
    """Finds items in training data: verbatim, with different numbers, or with reordered fields.

    ``others`` are items to ignore.
    """

    def __init__(self, items: Sequence[Item], others: Sequence[Item] = ()) -> None:
        questions = [item.asked for item in items]
        self._same = Contamination(questions)
        self._altered = AlteredItems(questions, (item.asked for item in others))

    def holds(self, text: str) -> bool:
        """Whether a text contains an item."""
        return self._same.holds(text) or self._altered.holds(text)


class KnownItems:
    """Finds items of either part in training data.

    Only matches of ``search`` may be reported to the LLM; they do not depend on the final part.
    """

    def __init__(self, parts: Parts) -> None:
        self.search = ItemsInData(parts.search)
        self.final = ItemsInData(parts.final, parts.search)


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
            subtask = subtask_of(record.value, benchmark if request.splits == "published" else None)
            items.append(_item(record.value, benchmark, subtask))
        except RowError as error:
            raise InvalidRequest(f"row {record.row}: {error.message}", param="file") from None
    return items


def _item(row: JsonObject, benchmark: Benchmark | None, subtask: tuple[str, ...]) -> Item:
    if benchmark is not None:
        return Item(row, _question(row, benchmark), subtask)
    _, question = question_of(row)
    if isinstance(question, str):
        return Item(row, question, subtask)
    return Item(row, _text(question), subtask, said_by_users(question))


def _question(row: JsonObject, benchmark: Benchmark) -> str:
    try:
        question = at_path(row, benchmark.question)
    except LookupError:
        question = None
    if not isinstance(question, str) or not question.strip():
        raise RowError(f"{benchmark.question} is not a text")
    return question


def _text(question: list[JsonObject]) -> str:
    return "\n".join(str(message.get("content") or "") for message in question)


def divide(items: Sequence[Item], request: CreateCampaign) -> Parts:
    """Divide items as the campaign asks.

    Raises `InvalidRequest` when a part has fewer than `MIN_ITEMS`.
    """
    if request.splits == "published":
        shuffles = request.benchmark is not None and benchmark_of(request.benchmark).shuffles
        split = by_subtask([item.subtask for item in items], shuffles=shuffles)
    else:
        split = by_question([item.question for item in items], request.final_share)
    parts = Parts([items[row] for row in split.search], [items[row] for row in split.final])
    if min(len(parts.search), len(parts.final)) < MIN_ITEMS:
        raise InvalidRequest(
            f"{len(parts.search)} search and {len(parts.final)} final items; each part needs "
            f"{MIN_ITEMS}",
            param="file",
        )
    return parts


def write_rows(path: Path, rows: Sequence[JsonObject]) -> None:
    """Write rows as JSON Lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
