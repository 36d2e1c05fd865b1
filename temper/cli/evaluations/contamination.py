"""``temper metrics contamination``: benchmark items that occur in a training file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from temper.cli.data.json_values import InvalidInput, read_values
from temper.cli.output import Output

if TYPE_CHECKING:
    from services.metrics.contamination import ContaminationReport

QUESTION_KEYS = ("messages", "prompt", "question", "problem")
"""Fields that may hold a row's question; the first one present is used."""
SHOWN_ITEMS = 50
CELL = 60
"""Width of a question in the table, in characters."""

Training = Annotated[
    Path,
    typer.Option(exists=True, dir_okay=False, help="Training rows: a JSON list or JSON lines."),
]
Benchmark = Annotated[
    Path,
    typer.Option(exists=True, dir_okay=False, help="Benchmark rows, in the same formats."),
]
QuestionField = Annotated[
    str | None,
    typer.Option(
        "--field",
        help=f"Field with the question; default: the first of {', '.join(QUESTION_KEYS)}.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the findings as one JSON document.")]


def contamination(
    training: Training,
    benchmark: Benchmark,
    field: QuestionField = None,
    as_json: AsJson = False,
) -> None:
    """List benchmark items found in a training file: verbatim, or by a run of 13 words."""
    from services.metrics.contamination import N, find_contamination

    questions = list(_questions(benchmark, (field,) if field else QUESTION_KEYS))
    if not questions:
        raise InvalidInput(f"{benchmark}: no rows")
    report = find_contamination(questions, read_values(training))
    if as_json:
        document = {"n": N, **asdict(report)}
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    else:
        _print(report, questions)


def _print(report: ContaminationReport, questions: list[str]) -> None:
    out = Output(as_json=False)
    out.line(
        f"{len(report.found)} of {report.items} items are in {report.contaminated_rows} of "
        f"{report.rows} training rows"
    )
    if not report.found:
        return
    columns = ("ITEM", "ROWS", "EXACT", "FIRST ROWS", "QUESTION")
    out.table(
        columns,
        [
            (
                str(each.item),
                str(each.rows),
                str(each.exact),
                ", ".join(map(str, each.first_rows)),
                _short(questions[each.item]),
            )
            for each in report.found[:SHOWN_ITEMS]
        ],
    )
    if len(report.found) > SHOWN_ITEMS:
        out.note(f"{len(report.found) - SHOWN_ITEMS} more items; --json lists all")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CELL else f"{line[: CELL - 1]}…"


def _questions(file: Path, keys: tuple[str, ...]) -> Iterator[str]:
    for number, row in enumerate(read_values(file)):
        given = [row[key] for key in keys if row.get(key)] if isinstance(row, dict) else []
        if not given:
            raise InvalidInput(f"{file}: row {number} has none of the fields {', '.join(keys)}")
        question = _text(given[0])
        if question is None:
            raise InvalidInput(f"{file}: row {number}: the question is neither text nor messages")
        yield question


def _text(question: Any) -> str | None:
    """Return a string as is, the users' text of a message list, or None for anything else."""
    from services.metrics.contamination import said_by_users

    if isinstance(question, str):
        return question
    if not isinstance(question, list) or not all(isinstance(each, dict) for each in question):
        return None
    return said_by_users(question)
