"""``temper submit``: submit a job file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.exit_codes import of_job
from temper.cli.gateway import connect
from temper.cli.jobs.follow import Follower, detachable
from temper.cli.jobs.jobs import print_job
from temper.cli.jobs.labels import MetadataOption, parse_metadata
from temper.cli.output import JsonOption, Output, transfer_bar

if TYPE_CHECKING:
    from services.contracts.jobs import JobState
    from temper.client import Temper

JobFile = Annotated[
    Path, typer.Argument(metavar="FILE", exists=True, dir_okay=False, readable=True)
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Follow the job and exit with its code.")
]


def submit(
    path: JobFile,
    follow: Follow = False,
    metadata: MetadataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Submit a job file (YAML or JSON): Temper's own, or a LLaMA-Factory training file.

    A Temper job file has "kind", such as fine_tuning or evaluation, and the fields of the request,
    which "temper KIND fields" lists. With "published", a rollout or fine-tune takes its
    settings from a run file of MindSpeed-RL, verl or slime. Local data files are uploaded first,
    unless the gateway has them.
    """
    from temper.submission.job_file import read_job_file
    from temper.submission.submit import Reporting
    from temper.submission.submit import submit as submit_job

    out = Output(as_json)
    labels = parse_metadata(metadata)
    report = Reporting(note=out.note, transfer=partial(transfer_bar, out))
    with connect() as client:
        with TemporaryDirectory(prefix="temper-") as scratch:
            submission = read_job_file(path, Path(scratch)).labeled(labels)
            job = submit_job(client, submission, report)
        if not follow:
            print_submitted(out, job)
            return
        done = follow_job(client, out, job)
    raise typer.Exit(of_job(done.status))


def print_submitted(out: Output, job: JobState) -> None:
    """Print the id of a new job, and how to follow it."""
    if out.as_json:
        out.document(job)
        return
    out.line(job.id)
    out.note(f"follow with: temper logs -f {job.id}", "dim")


def follow_job(client: Temper, out: Output, job: JobState) -> JobState:
    """Follow a new job until it ends, and print its result."""
    if out.as_json:
        out.json_line(job)
    else:
        out.line(job.id)
    with detachable(out, job.id):
        done = Follower(client, out).follow(job.id)
    result = client.detailed(done)
    if out.as_json:
        out.json_line(result)
    else:
        print_job(out, result)
    return result
