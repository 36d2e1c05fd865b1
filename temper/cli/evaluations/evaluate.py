"""``temper eval``: evaluate a model on benchmarks, and print a table of results."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.evaluations.outcomes import show_outcomes
from temper.cli.exit_codes import of_job
from temper.cli.gateway import connect
from temper.cli.jobs.follow import Follower, detachable
from temper.cli.output import Output, transfer_bar
from temper.cli.requests.flags import takes_request
from temper.submission.draft import Draft

if TYPE_CHECKING:
    from services.contracts.evaluation.evaluations import Evaluation
    from temper.client import Temper
    from temper.submission.benchmark import BenchmarkSubmission

Model = Annotated[str, typer.Argument(help="A registered model, or one behind --base-url.")]
Benchmarks = Annotated[
    list[str],
    typer.Argument(
        metavar="BENCHMARK...",
        help="NAME=ROWS, such as gsm8k=test.jsonl, or a YAML file of an evaluation.",
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(help="An OpenAI-compatible endpoint with the model, up to and including /v1."),
]
Tools = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A tool file: every answer becomes a conversation in which the model calls its tools.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the evaluation as a JSON line.")]


FLAGS = {
    "--samples": "samples_per_item",
    "--limit": "max_samples",
    "--split": "split",
    "--max-tokens": "sampling.max_tokens",
    "--temperature": "sampling.temperature",
    "--fresh": "fresh",
}


@takes_request("services.contracts.evaluation.evaluations:CreateEvaluation", FLAGS)
def evaluate(
    model: Model,
    benchmarks: Benchmarks,
    draft: Draft,
    base_url: BaseUrl = None,
    tools: Tools = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model on benchmarks with one engine, wait, and print one table.

    Nothing is submitted unless every benchmark is valid. The exit code is that of the evaluation.
    Ctrl-C detaches; the evaluation keeps running.
    """
    from temper.submission.benchmark import read_benchmarks, read_tools

    given = {
        **draft.body,
        "model": model if base_url is None else {"base_url": base_url, "model": model},
    }
    if tools is not None:
        given["tools"] = [tool.model_dump(mode="json") for tool in read_tools(tools)]
    submission = read_benchmarks(benchmarks, given)
    out = Output(as_json)
    with connect() as client:
        evaluation = _finish(client, out, _start(client, out, submission))
    if not as_json:
        show_outcomes(out, evaluation, submission.name)
    raise typer.Exit(of_job(evaluation.status))


def _start(client: Temper, out: Output, benchmark: BenchmarkSubmission) -> str:
    from temper.submission.submit import Reporting, submit

    report = Reporting(note=out.note, transfer=partial(transfer_bar, out))
    job = submit(client, benchmark.submission, report)
    out.note(f"{benchmark.name}: {job.id}")
    return job.id


def _finish(client: Temper, out: Output, job_id: str) -> Evaluation:
    with detachable(out, job_id):
        if out.is_live:
            Follower(client, out).follow(job_id)
        else:
            client.jobs.wait(job_id)
    evaluation = client.evaluations.get(job_id)
    if out.as_json:
        out.json_line(evaluation)
    elif evaluation.error is not None:
        out.note(f"{job_id}: {evaluation.error.message}")
    elif evaluation.cached_from is not None:
        out.note(f"{job_id}: reused the answers of {evaluation.cached_from}")
    elif evaluation.not_cached is not None:
        out.note(f"{job_id}: no answers were reused: {evaluation.not_cached}")
    return evaluation
