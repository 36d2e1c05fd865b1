"""``temper check``: what training would make of a file's rows, without training."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.exit_codes import ExitCode, of_job
from temper.cli.gateway import connect
from temper.cli.jobs.trajectory_text import escaped
from temper.cli.output import JsonOption, Output, transfer_bar
from temper.cli.requests.flags import Flag, Flags, takes_request
from temper.submission.assignments import json_or_text
from temper.submission.draft import Draft

if TYPE_CHECKING:
    from services.contracts.training.checks import Check, ValidationReport
    from services.contracts.training.fidelity import FidelityReport, SampleRow
    from temper.client.client import Temper
    from temper.submission.submission import Submission
    from temper.submission.submit import Reporting

LEARNED = ("\u27e6", "\u27e7")
"""Brackets around text whose tokens have a loss."""


FLAGS: Flags = {
    "--model": "model",
    "-m --method": Flag("method.type", help="Training method [default supervised]."),
    "--max-errors": "max_errors",
}


@takes_request("services.contracts.training.checks:CreateCheck", FLAGS)
def check(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Id of a file, or a local one to upload.")
    ],
    draft: Draft,
    hyperparameters: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Hyperparameters of the method, which --set can set one by one."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Validate a file as a fine-tune would: name the rows that cannot be used and, with a model,
    show what is trained and what of the rows is not in it."""
    from services.contracts.kinds import JobKind
    from services.contracts.training.methods import MethodType
    from temper.submission.job_file import submission_of
    from temper.submission.submit import Reporting

    draft.set("training_file", file, "FILE")
    draft.default("method.type", MethodType.SUPERVISED.value)
    method = str(draft.get("method.type"))
    if method in {each.value for each in MethodType if each.is_online}:
        raise draft.fault(("method", "type"), f"{method} trains online, on prompts")
    if hyperparameters is not None:
        path = f"method.{method}.hyperparameters"
        draft.set(path, json_or_text(hyperparameters), "--hyperparameters")
    out = Output(as_json)
    report = Reporting(note=out.note, transfer=partial(transfer_bar, out))
    with connect() as client:
        done = check_of(client, submission_of(JobKind.CHECK, draft), report)
    if as_json:
        out.document(done)
    else:
        print_check(out, done)
    raise typer.Exit(exit_code(done))


def check_of(client: Temper, submission: Submission, report: Reporting) -> Check:
    """Submit a check, and return it once it has ended."""
    from temper.submission.submit import submit

    created = submit(client, submission, report)
    client.jobs.wait(created.id)
    return client.checks.get(created.id)


def exit_code(check: Check) -> int:
    """The exit code of a finished check: a failure, too, where training would refuse the file."""
    fidelity = check.report.fidelity if check.report is not None else None
    is_refused = fidelity is not None and fidelity.verdict == "refused"
    return ExitCode.FAILED if is_refused else of_job(check.status)


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
    if (split := report.split) is not None:
        fields["split"] = f"{split.training_rows:,} to train, {split.validation_rows:,} held out"
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
