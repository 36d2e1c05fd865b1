"""``temper eval``: evaluate a model on benchmarks, and print a table of results."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.contracts.evaluation.benchmarks import SplitName
from temper.cli.evaluations.outcomes import show_outcomes
from temper.cli.exit_codes import of_job
from temper.cli.gateway import connect
from temper.cli.jobs.follow import Follower, detachable
from temper.cli.output import Output, transfer_bar

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
Samples = Annotated[int | None, typer.Option(help="Answers per row, for pass@k and maj@n.")]
Limit = Annotated[
    int | None, typer.Option(help="Take only this many rows of each benchmark, from the first.")
]
Split = Annotated[
    SplitName | None,
    typer.Option(help="Take the first or last half of each sub-task's rows, at most 100."),
]
MaxTokens = Annotated[int | None, typer.Option(help="Maximum tokens per answer.")]
Temperature = Annotated[float | None, typer.Option(help="0 is greedy.")]
Tools = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="A tool file: every answer becomes a conversation in which the model calls its tools.",
    ),
]
Fresh = Annotated[
    bool,
    typer.Option("--fresh", help="Sample the model even if an identical evaluation has finished."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the evaluation as a JSON line.")]


def evaluate(
    model: Model,
    benchmarks: Benchmarks,
    base_url: BaseUrl = None,
    samples: Samples = None,
    limit: Limit = None,
    split: Split = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    tools: Tools = None,
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model on benchmarks with one engine, wait, and print one table.

    Nothing is submitted unless every benchmark is valid. The exit code is that of the evaluation.
    Ctrl-C detaches; the evaluation keeps running.
    """
    from temper.submission.benchmark import read_benchmarks, read_tools

    given = {
        "model": model if base_url is None else {"base_url": base_url, "model": model},
        **_set(samples_per_item=samples, max_samples=limit, split=split, fresh=fresh or None),
    }
    if sampling := _set(max_tokens=max_tokens, temperature=temperature):
        given["sampling"] = sampling
    if tools is not None:
        given["tools"] = [tool.model_dump(mode="json") for tool in read_tools(tools)]
    submission = read_benchmarks(benchmarks, given)
    out = Output(as_json)
    with connect() as client:
        evaluation = _finish(client, out, _start(client, out, submission))
    if not as_json:
        show_outcomes(out, evaluation, submission.name)
    raise typer.Exit(of_job(evaluation.status))


def _set(**settings: float | str | None) -> dict[str, Any]:
    """Return the settings that were given; the benchmark decides the others."""
    return {name: value for name, value in settings.items() if value is not None}


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
