"""``temper eval``: a model on several benchmarks, and a table of what it reached."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from services.contracts.evaluations import Evaluation, EvaluationMetrics
from temper.cli.exit_codes import ExitCode, of_job
from temper.cli.follow import Follower, detachable
from temper.cli.gateway import connect
from temper.cli.measures import COLUMNS as MEASURE_COLUMNS
from temper.cli.measures import measure_rows
from temper.cli.output import Output, transfer_bar
from temper.client import Temper
from temper.submission.benchmark import BenchmarkSubmission, read_benchmark, read_tools
from temper.submission.submit import Reporting, submit

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
Samples = Annotated[int | None, typer.Option(help="Answers to each row, for pass@k and maj@n.")]
Limit = Annotated[int | None, typer.Option(help="Take the first rows of each benchmark only.")]
MaxTokens = Annotated[int | None, typer.Option(help="Tokens of an answer at most.")]
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
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON line for each evaluation.")]

COLUMNS = ("BENCHMARK", "ITEMS", "ACCURACY", "95 % INTERVAL", "MAJORITY", "PASS@K", "FAILED", "ID")


def evaluate(
    model: Model,
    benchmarks: Benchmarks,
    base_url: BaseUrl = None,
    samples: Samples = None,
    limit: Limit = None,
    max_tokens: MaxTokens = None,
    temperature: Temperature = None,
    tools: Tools = None,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model on benchmarks, wait for all of them, and print one table.

    Nothing is submitted unless every benchmark is valid. The exit code is that of the first
    evaluation that did not succeed. Ctrl-C detaches; the evaluations keep running.
    """
    given = {
        "model": model if base_url is None else {"base_url": base_url, "model": model},
        **_set(samples_per_item=samples, max_samples=limit),
    }
    if sampling := _set(max_tokens=max_tokens, temperature=temperature):
        given["sampling"] = sampling
    if tools is not None:
        given["tools"] = [tool.model_dump(mode="json") for tool in read_tools(tools)]
    submissions = [read_benchmark(text, given) for text in benchmarks]
    out = Output(as_json)
    with connect() as client:
        started = [(each.name, _start(client, out, each)) for each in submissions]
        done = [(name, _finish(client, out, evaluation)) for name, evaluation in started]
    if not as_json:
        out.table(COLUMNS, (_row(name, evaluation) for name, evaluation in done))
        measures = [(name, *row) for name, each in done for row in measure_rows(each.metrics)]
        if measures:
            out.line("")
            out.table(("BENCHMARK", *MEASURE_COLUMNS), measures)
    raise typer.Exit(_exit_code(evaluation for _, evaluation in done))


def _set(**settings: float | None) -> dict[str, Any]:
    """The settings that were given; the others keep what the benchmark says."""
    return {name: value for name, value in settings.items() if value is not None}


def _start(client: Temper, out: Output, benchmark: BenchmarkSubmission) -> str:
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
    return evaluation


def _row(name: str, evaluation: Evaluation) -> tuple[str, ...]:
    metrics = evaluation.metrics
    if metrics is None:
        return name, "", evaluation.status.value, "", "", "", "", evaluation.id
    low, high = metrics.ci95
    return (
        name,
        str(metrics.samples if metrics.items is None else metrics.items),
        f"{metrics.accuracy:.4f}",
        f"{low:.4f} to {high:.4f}",
        "" if metrics.majority is None else f"{metrics.majority.mean:.4f}",
        _pass_at_most(metrics),
        str(metrics.errors),
        evaluation.id,
    )


def _pass_at_most(metrics: EvaluationMetrics) -> str:
    """pass@k of the largest k; empty with one sample per item."""
    if not metrics.pass_at_k:
        return ""
    k = max(metrics.pass_at_k, key=int)
    return f"{metrics.pass_at_k[k].mean:.4f} (k={k})"


def _exit_code(evaluations: Iterable[Evaluation]) -> ExitCode:
    codes = (of_job(evaluation.status) for evaluation in evaluations)
    return next((code for code in codes if code is not ExitCode.OK), ExitCode.OK)
