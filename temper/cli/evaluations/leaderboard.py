"""``temper evals table``: a leaderboard of models over benchmarks."""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from temper.cli.gateway import connect
from temper.cli.output import Output

if TYPE_CHECKING:
    from services.contracts.evaluation.evaluations import Evaluation
    from services.metrics.leaderboard import (
        BenchmarkKey,
        Leaderboard,
        LeaderboardCell,
        LeaderboardRow,
    )
    from temper.client import Temper

Model = Annotated[list[str] | None, typer.Option("--model", help="Only this model; repeatable.")]
File = Annotated[
    list[str] | None, typer.Option("--file", help="Only evaluations of this file; repeatable.")
]
Most = Annotated[
    int, typer.Option("-n", min=1, max=10_000, help="Maximum number of evaluations, newest first.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def table(
    model: Model = None,
    file: File = None,
    most: Most = 1000,
    markdown: Markdown = False,
    as_json: AsJson = False,
) -> None:
    """Print the newest main metric of every model on every benchmark, with 95 % intervals.

    An asterisk marks the best model of a benchmark.
    """
    from services.metrics.leaderboard import leaderboard

    if markdown and as_json:
        raise typer.BadParameter("give either --markdown or --json")
    with connect() as client:
        page = client.evaluations.page(most=most)
        board = leaderboard(each for each in page.data if _wanted(each, model, file))
        names = filenames(client, board)
    out = Output(as_json=False)
    if as_json:
        document = _document(board, names)
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    elif not board.rows:
        out.note("no evaluation has succeeded")
    else:
        heading, rows = shown_table(board, names)
        if markdown:
            sys.stdout.write(markdown_table(heading, rows))
        else:
            out.table(heading, rows)
    if page.has_more:
        out.note(f"older evaluations exist; -n {most * 2} includes them")


def _wanted(evaluation: Evaluation, models: list[str] | None, files: list[str] | None) -> bool:
    model = evaluation.model if isinstance(evaluation.model, str) else evaluation.model.model
    of_files = {outcome.file for outcome in evaluation.outcomes()}
    return (not models or model in models) and (not files or not of_files.isdisjoint(files))


def filenames(client: Temper, board: Leaderboard) -> dict[str, str]:
    """Return file names by id; a deleted file is named by its id."""
    from temper.client import ApiError

    names = {}
    for file in {benchmark.file for benchmark in board.benchmarks}:
        try:
            names[file] = client.files.get(file).filename
        except ApiError as error:
            if error.status != 404:
                raise
            names[file] = file
    return names


def shown_table(
    board: Leaderboard, names: dict[str, str]
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return a leaderboard's heading and rows; ``names`` comes from `filenames`."""
    heading = ("MODEL", *_headings(board, names), "MEAN")
    return heading, [_cells(row, board) for row in board.rows]


def _headings(board: Leaderboard, names: dict[str, str]) -> list[str]:
    """Return the benchmark columns; duplicate names get the file's id and a number."""
    short = [_heading(each, names[each.file]) for each in board.benchmarks]
    seen = Counter(short)
    return [
        f"{name} {benchmark.file} #{number}" if seen[name] > 1 else name
        for number, (name, benchmark) in enumerate(zip(short, board.benchmarks, strict=True), 1)
    ]


def _heading(benchmark: BenchmarkKey, filename: str) -> str:
    from services.metrics.main_metric import ACCURACY

    repeats = f" avg@{benchmark.samples_per_item}" if benchmark.samples_per_item > 1 else ""
    split = f"{benchmark.split}, " if benchmark.split else ""
    own = f"{benchmark.name}, " if benchmark.name else ""
    graded = benchmark.benchmark or f"{own}{benchmark.grader}"
    metric = "" if benchmark.metric == ACCURACY else f"{benchmark.metric}, "
    lower = "lower is better, " if benchmark.direction == "minimize" else ""
    return f"{filename} ({graded}, {metric}{lower}{split}{benchmark.rows}{repeats})"


def _cells(row: LeaderboardRow, board: Leaderboard) -> tuple[str, ...]:
    shown = (_cell(row, board, benchmark) for benchmark in board.benchmarks)
    return row.model, *shown, _mean(row)


def _cell(row: LeaderboardRow, board: Leaderboard, benchmark: BenchmarkKey) -> str:
    if benchmark not in row.cells:
        return ""
    best = " *" if board.is_best(row, benchmark) else ""
    return f"{_shown(row.cells[benchmark])}{best}"


def _mean(row: LeaderboardRow) -> str:
    if row.interval is None:
        return "" if row.mean is None else f"{row.mean:.4f}"
    low, high = row.interval.ci95
    return f"{row.interval.mean:.4f} [{low:.4f}, {high:.4f}]"


def _shown(cell: LeaderboardCell) -> str:
    errors = f", {cell.metrics.errors} failed" if cell.metrics.errors else ""
    if cell.main.mean is None:
        return f"nothing graded{errors}"
    low, high = cell.main.ci95 or (None, None)
    interval = "" if low is None else f" [{low:.4f}, {high:.4f}]"
    return f"{cell.main.mean:.4f}{interval}{errors}"


def markdown_table(heading: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Render a Markdown table; all columns but the first are right-aligned."""
    rule = ("---", *("---:" for _ in heading[1:]))
    lines = [tuple(map(_escaped, heading)), rule, *(tuple(map(_escaped, row)) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escaped(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())


def _document(board: Leaderboard, names: dict[str, str]) -> dict[str, Any]:
    return {
        "benchmarks": [
            {
                "file": each.file,
                "filename": names[each.file],
                "benchmark": each.benchmark,
                "split": each.split,
                "grader": each.grader,
                "metric": each.metric,
                "direction": each.direction,
                "items": each.rows,
                "samples_per_item": each.samples_per_item,
            }
            for each in board.benchmarks
        ],
        "models": [
            {
                "model": row.model,
                "mean": row.mean,
                "mean_stderr": row.interval and row.interval.stderr,
                "mean_ci95": row.interval and list(row.interval.ci95),
                "results": [_result(row.cells.get(each)) for each in board.benchmarks],
            }
            for row in board.rows
        ],
    }


def _result(cell: LeaderboardCell | None) -> dict[str, Any] | None:
    """Return the result in one cell, or None if there is none."""
    if cell is None:
        return None
    metrics = cell.metrics
    return {
        "evaluation": cell.evaluation,
        "main_metric": cell.main.model_dump(mode="json"),
        "accuracy": metrics.accuracy,
        "stderr": metrics.stderr,
        "ci95": list(metrics.ci95),
        "errors": metrics.errors,
    }
