"""``temper compare`` and ``temper evals``: results, comparisons and sample sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from services.contracts.evaluation.results import ResultOutcome
from temper.cli.evaluations.leaderboard import table
from temper.cli.evaluations.outcomes import MEASURE_COLUMNS, measure_rows, show_outcomes
from temper.cli.evaluations.report import report
from temper.cli.gateway import connect
from temper.cli.jobs.job_view import job_fields
from temper.cli.jobs.jobs import JobId
from temper.cli.jobs.trajectory_text import render
from temper.cli.output import JsonOption, Output

if TYPE_CHECKING:
    from services.contracts.evaluation.comparisons import (
        ComparedValue,
        EvaluationComparison,
        PairedComparison,
    )
    from services.contracts.evaluation.metrics import CallScore, CallTable
    from services.contracts.evaluation.results import SampleResult
    from temper.client import Temper

app = typer.Typer(help="Results of evaluations, and the sample size they need.")
app.command("table")(table)
app.command("report")(report)

CALL_COLUMNS = (
    *("TOOL CALLS", "PRECISION A", "PRECISION B"),
    *("RECALL A", "RECALL B", "F1 A", "F1 B", "F1 B - A"),
)
SHOWN_ITEMS = 20
CELL = 80
"""Width of a gold or an answer in the table, in characters."""

Baseline = Annotated[str, typer.Argument(metavar="A", help="The evaluation to compare with.")]
Candidates = Annotated[
    list[str], typer.Argument(metavar="B [C ...]", help="Evaluations of the same file.")
]
Score = Annotated[
    bool | None,
    typer.Option(
        "--score/--correct",
        help="Compare scores or correctness; default: what the main metric uses.",
    ),
]
Difference = Annotated[
    float, typer.Option(help="The difference in accuracy to detect, such as 0.03.")
]
Discordant = Annotated[
    float | None,
    typer.Option(help="The share of items that one model gets right and the other wrong."),
]
Accuracy = Annotated[
    float | None, typer.Option(help="The first model's accuracy, if that share is unknown.")
]
Power = Annotated[float, typer.Option(help="The probability of detecting the difference.")]
Alpha = Annotated[float, typer.Option(help="The test's two-sided significance level.")]

Only = Annotated[ResultOutcome | None, typer.Option(help="Only rows with this outcome.")]
Text = Annotated[str | None, typer.Option(help="Only answers that contain this text.")]
Tag = Annotated[str | None, typer.Option(help="Only rows with this tag, or of this sub-task.")]
Conversations = Annotated[
    bool,
    typer.Option("--conversations", help="Show the conversation of each row, with its calls."),
]
OfBenchmark = Annotated[
    str | None, typer.Option("--benchmark", help="Only rows of this benchmark.")
]
Most = Annotated[int, typer.Option("-n", min=1, max=10_000, help="Maximum number of rows.")]


@app.callback()
def group() -> None:
    """Results of evaluations, and the sample size they need."""


def compare(
    baseline: Baseline, candidates: Candidates, score: Score = None, as_json: JsonOption = False
) -> None:
    """Test evaluations of the same items against the first: difference, interval, p-value."""
    from services.contracts.evaluation.comparisons import CompareEvaluations

    out = Output(as_json)
    value: ComparedValue | None = None
    if score is not None:
        value = "score" if score else "correct"
    request = CompareEvaluations(candidates=candidates, value=value)
    with connect() as client:
        found = client.evaluations.compare(baseline, request)
    if as_json:
        out.document(found)
    else:
        show_comparison(found, out)


def show_comparison(found: EvaluationComparison, out: Output) -> None:
    """Print differences, intervals and p-values, and the items that changed."""
    columns = (
        "CANDIDATE",
        "BENCHMARK",
        "ITEMS",
        "A",
        "B",
        "B - A",
        "95 % INTERVAL",
        "P",
        "P (HOLM)",
        "BETTER",
    )
    out.table(columns, map(_row, found.comparisons))
    for each in found.comparisons:
        out.line("")
        benchmark = f"{each.benchmark}, " if each.benchmark else ""
        lower = ", lower is better" if each.direction == "minimize" else ""
        out.line(f"{each.candidate} ({benchmark}{each.test}{lower})", "bold")
        out.line(f"gained {each.gained}{_listed(each.gained_items)}")
        out.line(f"lost {each.lost}{_listed(each.lost_items)}")
        if each.baseline_errors or each.candidate_errors:
            out.line(f"no grade: {each.baseline_errors} in A, {each.candidate_errors} in B")
        if each.left_out:
            out.line(f"left out: {each.left_out}")
        if each.tool_calls is not None:
            out.line("")
            tools = each.tool_calls.baseline.tools, each.tool_calls.candidate.tools
            out.table(CALL_COLUMNS, _calls(*tools))


def _calls(baseline: CallTable, candidate: CallTable) -> Iterator[tuple[str, ...]]:
    """Yield a row per tool name in either table, then both averages."""
    ours = {entry.name: entry for entry in baseline.entries}
    theirs = {entry.name: entry for entry in candidate.entries}
    for name in {**ours, **theirs}:
        yield _call_row(name, ours.get(name), theirs.get(name))
    yield _call_row("micro average", baseline.micro_avg, candidate.micro_avg)
    yield _call_row("macro average", baseline.macro_avg, candidate.macro_avg)


def _call_row(name: str, a: CallScore | None, b: CallScore | None) -> tuple[str, ...]:
    difference = "" if a is None or b is None else f"{b.f1 - a.f1:+.4f}"
    pairs = zip(_scores(a), _scores(b), strict=True)
    return name, *chain.from_iterable(pairs), difference


def _scores(score: CallScore | None) -> tuple[str, ...]:
    if score is None:
        return ("",) * 3
    return tuple(f"{value:.4f}" for value in (score.precision, score.recall, score.f1))


def _row(each: PairedComparison) -> tuple[str, ...]:
    low, high = each.ci95
    return (
        each.candidate,
        each.benchmark or "",
        str(each.items),
        f"{each.baseline_mean:.4f}",
        f"{each.candidate_mean:.4f}",
        f"{each.difference:+.4f}",
        f"{low:+.4f} to {high:+.4f}",
        f"{each.p_value:.4g}",
        f"{each.p_adjusted:.4g}",
        {None: "", "baseline": "A", "candidate": "B"}[each.better],
    )


def _listed(items: list[int]) -> str:
    if not items:
        return ""
    more = ", ..." if len(items) > SHOWN_ITEMS else ""
    return f": rows {', '.join(map(str, items[:SHOWN_ITEMS]))}{more}"


@app.command("show")
def show(
    job_id: JobId,
    only: Only = None,
    text: Text = None,
    benchmark: OfBenchmark = None,
    tag: Tag = None,
    most: Most = 20,
    conversations: Conversations = False,
    as_json: JsonOption = False,
) -> None:
    """Show an evaluation's metrics and rows: gold, and the answer or why it has no grade."""
    out = Output(as_json)
    with connect() as client:
        rows = client.evaluations.results(
            job_id, outcome=only, text=text, benchmark=benchmark, tag=tag, order="input", most=most
        )
        evaluation = client.evaluations.get(job_id)
        if conversations:
            _show_conversations(client, out, job_id, rows.data)
            return
    if as_json:
        out.document(rows)
        return
    out.fields(job_fields(evaluation))
    out.line("")
    if evaluation.benchmarks is not None:
        show_outcomes(out, evaluation)
        out.line("")
    elif measures := list(measure_rows(evaluation.metrics)):
        out.table(MEASURE_COLUMNS, measures)
        out.line("")
    out.table(("ROW", "OUTCOME", "GOLD", "COMPARED"), map(_result_row, rows.data))
    if rows.has_more:
        out.note(f"more rows exist; -n {most * 2} shows them")
    if any(row.tools for row in rows.data):
        out.note(f"with their tool calls:  temper evals show {job_id} --conversations", "dim")


def _show_conversations(
    client: Temper, out: Output, job_id: str, rows: Sequence[SampleResult]
) -> None:
    """Print the conversations of rows in full; rows without tools have none."""
    from services.contracts.jobs import JobKind

    for row in rows:
        if row.tools is None:
            out.note(f"row {_result_row(row)[0]} was answered without tools")
            continue
        found = client.trajectories.get(job_id, row.tools.trajectory, JobKind.EVALUATION)
        if out.as_json:
            out.json_line(found)
        else:
            out.line(", ".join(_result_row(row)[:2]), "bold")
            out.line(render(found))


def _result_row(result: SampleResult) -> tuple[str, ...]:
    compared = result.error or result.extracted or result.answer or ""
    row = f"{result.index}.{result.sample}" if result.sample else str(result.index)
    if result.benchmark is not None:
        row = f"{result.benchmark} {row}"
    return row, result.outcome, _short(" | ".join(result.gold)), _short(compared)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= CELL else f"{line[: CELL - 1]}…"


@app.command("plan")
def plan(
    difference: Difference,
    discordant: Discordant = None,
    accuracy: Accuracy = None,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
) -> None:
    """Print how many items a paired comparison needs to detect a difference."""
    from services.metrics.sample_size import independent_discordance, items_needed

    try:
        if discordant is None and accuracy is not None:
            discordant = independent_discordance(accuracy, difference)
        elif discordant is None or accuracy is not None:
            raise typer.BadParameter("give either --discordant or --accuracy")
        items = items_needed(difference, discordant, power, alpha)
    except (ValueError, OverflowError) as error:
        raise typer.BadParameter(str(error)) from error
    Output(as_json=False).line(str(items))
