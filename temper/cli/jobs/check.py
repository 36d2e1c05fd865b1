"""``temper check``: what training would make of a file's rows, without training."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.contracts.training.fine_tuning import MethodType
from temper.cli.exit_codes import ExitCode, of_job
from temper.cli.gateway import connect
from temper.cli.jobs.trajectory_text import escaped
from temper.cli.output import JsonOption, Output, transfer_bar

if TYPE_CHECKING:
    from services.contracts.training.checks import Check, ValidationReport
    from services.contracts.training.fidelity import FidelityReport, SampleRow
    from temper.client.client import Temper

LEARNED = ("\u27e6", "\u27e7")
"""Brackets around text whose tokens have a loss."""


def check(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Id of a file, or a local one to upload.")
    ],
    method: Annotated[
        MethodType, typer.Option("--method", "-m", help="Training method.")
    ] = MethodType.SUPERVISED,
    model: Annotated[
        str | None,
        typer.Option("--model", help="Model to train: its tokenizer counts, its template renders."),
    ] = None,
    hyperparameters: Annotated[
        str, typer.Option("--hyperparameters", help="The method's hyperparameters, as JSON.")
    ] = "{}",
    as_json: JsonOption = False,
) -> None:
    """Validate a file as a fine-tune would: name the rows that cannot be used and, with a model,
    show what is trained and what of the rows is not in it."""
    from services.contracts.training.checks import CreateCheck
    from services.contracts.training.fine_tuning import Method

    out = Output(as_json)
    try:
        given = {"hyperparameters": json.loads(hyperparameters)}
        asked = Method.model_validate({"type": method, method.value: given})
        _ = asked.as_offline
    except ValueError as error:
        message = (
            str(error) if hyperparameters != "{}" else f"{method.value} trains online, on prompts"
        )
        raise typer.BadParameter(message, param_hint="--method") from error
    with connect() as client:
        body = CreateCheck(training_file=_uploaded(client, out, file), model=model, method=asked)
        created = client.checks.create(body)
        client.jobs.wait(created.id)
        done = client.checks.get(created.id)
    if as_json:
        out.document(done)
    else:
        print_check(out, done)
    raise typer.Exit(exit_code(done))


def exit_code(check: Check) -> int:
    """The exit code of a finished check: a failure, too, where training would refuse the file."""
    fidelity = check.report.fidelity if check.report is not None else None
    is_refused = fidelity is not None and fidelity.verdict == "refused"
    return ExitCode.FAILED if is_refused else of_job(check.status)


def _uploaded(client: Temper, out: Output, file: str) -> str:
    from services.contracts.data.files import FilePurpose

    path = Path(file)
    if not path.is_file():
        return file
    with transfer_bar(out, f"uploading {path.name}") as progress:
        stored = client.files.upload(path, FilePurpose.FINE_TUNE, progress)
    out.note(f"uploaded as {stored.id}", "dim")
    return stored.id


def print_check(out: Output, check: Check) -> None:
    """Print what a check found."""
    if check.report is not None:
        out.fields(_report_fields(check.report))
        if check.report.fidelity is not None:
            for line in fidelity_lines(check.report.fidelity):
                out.line(line)
    elif check.error is not None and check.error.rows:
        out.table(("ROW", "FINDING"), [(str(each.row), each.message) for each in check.error.rows])
    else:
        out.line(check.error.message if check.error else f"{check.id} is {check.status.value}")


def _report_fields(report: ValidationReport) -> dict[str, str | None]:
    fields = {
        "rows": f"{report.rows:,}, all usable",
        "format": report.layout.value if report.layout else None,
        "ignored columns": ", ".join(report.ignored_columns) or None,
    }
    if (lengths := report.lengths) is not None:
        spread = f"mean {lengths.mean:,.0f}, p95 {lengths.p95:,}, max {lengths.max:,}"
        fields |= {
            f"{lengths.unit} per row": spread,
            "truncated": f"{lengths.truncated:,} rows" if lengths.truncated else None,
        }
    if (fidelity := report.fidelity) is not None and fidelity.left_out:
        fields["rows"] = f"{report.rows:,}, of which {fidelity.left_out:,} teach nothing"
    return fields


def fidelity_lines(report: FidelityReport) -> Iterator[str]:
    """Sample rows as they are trained, the findings, and the verdict."""
    for sample in report.samples:
        yield from _sample_lines(sample)
    for finding in report.findings:
        numbers = ", ".join(map(str, finding.first_rows))
        more = ", ..." if finding.rows > len(finding.first_rows) else ""
        rows = "1 row" if finding.rows == 1 else f"{finding.rows:,} rows"
        yield f"{rows} ({numbers}{more}): {escaped(finding.message)}"
    yield f"verdict: {report.verdict.replace('_', ' ')}: {escaped(report.summary)}"


def _sample_lines(sample: SampleRow) -> Iterator[str]:
    cut = f", {sample.cut_tokens:,} tokens cut off" if sample.cut_tokens else ""
    yield f"row {sample.row}{cut}, {LEARNED[0]}trained{LEARNED[1]}:"
    for sequence in sample.sequences:
        text = "".join(
            f"{LEARNED[0]}{part.text}{LEARNED[1]}" if part.trained else part.text
            for part in sequence
        )
        for line in text.splitlines():
            yield f"  {escaped(line)}"
    for part in sample.missing:
        yield f"  not in the trained text: {escaped(part)}"
