"""``temper KIND start``: a job of any kind, by a job file and options."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.exit_codes import of_job
from temper.cli.gateway import connect
from temper.cli.jobs.labels import MetadataOption, parse_metadata
from temper.cli.output import JsonOption, Output, transfer_bar
from temper.cli.requests.flags import takes_request
from temper.submission.draft import Draft

if TYPE_CHECKING:
    from services.contracts.kinds import Kind
    from temper.client import Temper
    from temper.submission.submission import Submission
    from temper.submission.submit import Reporting

FollowOption = Annotated[bool, typer.Option("--follow", help="Follow the job, exit with its code.")]
DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Create no job. Print the request with all its settings, those of a recipe too; of "
        "an offline fine-tune, upload the data and have the gateway check them.",
    ),
]


def start_of(kind: Kind) -> Callable[..., None]:
    """Return the command that starts a job of a kind."""

    @takes_request(kind.request_type, {}, partial(read_file, kind.name))
    def start(
        draft: Draft,
        metadata: MetadataOption = None,
        follow: FollowOption = False,
        dry_run: DryRunOption = False,
        as_json: JsonOption = False,
    ) -> None:
        from temper.submission.job_file import submission_of

        labels = parse_metadata(metadata)
        send(submission_of(kind.name, draft).labeled(labels), follow, dry_run, as_json)

    start.__doc__ = START_SUMMARY
    return start


START_SUMMARY = """Start a job by its request: a job file, its fields, or both.

Local files that the request names are uploaded first, unless the gateway has them; in a job file
they are relative to it.
"""


def read_file(kind: str, path: Path) -> Draft:
    """Return the fields of a job file of a kind."""
    from temper.submission.job_file import read_draft

    return read_draft(path, kind)


def send(submission: Submission, follow: bool, dry_run: bool, as_json: bool) -> None:
    """Submit a job and print its id, or follow it; with ``dry_run``, only check its data, or print
    the request where there is nothing to check."""
    from temper.submission.submit import Reporting, is_checked, submit

    out = Output(as_json)
    if dry_run and not is_checked(submission.request):
        for note in submission.notes:
            out.note(note)
        out.document(submission.request)
        return
    from temper.cli.jobs.submit import follow_job, print_submitted

    report = Reporting(note=out.note, transfer=partial(transfer_bar, out))
    with connect() as client:
        if dry_run:
            raise typer.Exit(_check(client, out, submission, report))
        job = submit(client, submission, report)
        if not follow:
            print_submitted(out, job)
            return
        done = follow_job(client, out, job)
    raise typer.Exit(of_job(done.status))


def _check(client: Temper, out: Output, submission: Submission, report: Reporting) -> int:
    """Check every training file as the job would be trained on it; return the exit code."""
    from temper.cli.jobs.check import check_of, exit_code, print_check
    from temper.submission.submit import checks_of

    codes = []
    for check in checks_of(submission):
        done = check_of(client, check, report)
        if out.as_json:
            out.json_line(done)
        else:
            print_check(out, done)
        codes.append(exit_code(done))
    return max(codes)
