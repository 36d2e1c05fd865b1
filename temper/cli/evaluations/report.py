"""``temper evals report``: write the results of evaluations to a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.gateway import connect
from temper.cli.output import Output

if TYPE_CHECKING:
    from services.contracts.base import Page
    from services.contracts.evaluation.evaluations import Evaluation
    from services.contracts.evaluation.results import SampleResult
    from services.metrics.conversations import Conversation
    from services.metrics.evaluation_report import EvaluationReport
    from temper.client import Temper

Evaluations = Annotated[
    list[str],
    typer.Argument(metavar="A [B ...]", help="Evaluations; B and later are compared with A."),
]
Target = Annotated[
    Path, typer.Option("-o", "--output", dir_okay=False, help="A file: .html, .xlsx, .md, .json.")
]
Rows = Annotated[
    int, typer.Option("--rows", min=0, max=100_000, help="Rows of each benchmark in the report.")
]
Conversations = Annotated[
    int,
    typer.Option(
        "--conversations",
        min=0,
        max=10_000,
        help="Tool-use conversations in the report, from the first rows of each benchmark.",
    ),
]


def report(
    evaluations: Evaluations, output: Target, rows: Rows = 1000, conversations: Conversations = 100
) -> None:
    """Write a report: accuracies, comparison with the first, changed rows, and all rows."""
    from services.metrics.evaluation_report import FORMATS
    from services.metrics.reports.writers import write_document

    if output.suffix not in FORMATS:
        raise typer.BadParameter(
            f"{output.name} is not one of {', '.join(FORMATS)}", param_hint="--output"
        )
    if len(set(evaluations)) < len(evaluations):
        raise typer.BadParameter("an evaluation is named twice")
    with connect() as client:
        found = load_report(client, evaluations, rows, conversations)
    write_document(found.document(), output)
    Output(as_json=False).note(f"wrote {output}")


def load_report(
    client: Temper, names: list[str], most: int, conversations: int = 0
) -> EvaluationReport:
    """Load evaluations with up to ``most`` rows of each benchmark, and up to ``conversations``
    conversations of these rows with tools.

    Raises `typer.BadParameter` unless all have succeeded.
    """
    from services.contracts.evaluation.comparisons import CompareEvaluations
    from services.contracts.jobs import JobStatus
    from services.metrics.evaluation_report import EvaluationReport

    evaluations = [client.evaluations.get(name) for name in names]
    for each in evaluations:
        if each.status is not JobStatus.SUCCEEDED:
            raise typer.BadParameter(f"{each.id} is {each.status.value}, not succeeded")
    comparison = None
    if len(names) > 1:
        request = CompareEvaluations(candidates=names[1:])
        comparison = client.evaluations.compare(names[0], request)
    pages = {each.id: _pages(client, each, most) for each in evaluations}
    return EvaluationReport(
        evaluations,
        {name: [row for page in found for row in page.data] for name, found in pages.items()},
        comparison,
        has_more=any(page.has_more for found in pages.values() for page in found),
        conversations=[
            conversation
            for name, found in pages.items()
            for page in found
            for conversation in _conversations(client, name, page.data, conversations)
        ],
    )


def _pages(client: Temper, evaluation: Evaluation, most: int) -> list[Page[SampleResult]]:
    """Return the first rows of each benchmark."""
    if not most:
        return []
    names = [each.name for each in evaluation.benchmarks or ()] or [None]
    results = client.evaluations.results
    return [results(evaluation.id, benchmark=name, order="input", most=most) for name in names]


def _conversations(
    client: Temper, evaluation: str, rows: Sequence[SampleResult], most: int
) -> Iterator[Conversation]:
    """Yield the first conversations of a benchmark's rows, without their tokens."""
    from services.contracts.jobs import JobKind
    from services.metrics.conversations import Conversation, without_tokens

    with_tools = [(row, row.tools.trajectory) for row in rows if row.tools is not None]
    for row, name in with_tools[:most]:
        trajectory = client.trajectories.get(evaluation, name, JobKind.EVALUATION)
        yield Conversation(evaluation, row, without_tokens(trajectory))
