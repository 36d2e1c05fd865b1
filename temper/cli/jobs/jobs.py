"""``temper ps``, ``show``, ``logs``, ``wait``, and the commands that change a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from services.contracts.jobs import JobKind, JobStatus
from temper.cli.exit_codes import of_job
from temper.cli.gateway import connect
from temper.cli.jobs.event_text import event_line
from temper.cli.jobs.follow import Follower, detachable
from temper.cli.jobs.job_view import JOB_COLUMNS, job_fields, job_row
from temper.cli.jobs.labels import parse_metadata
from temper.cli.output import JsonOption, Output
from temper.cli.stack.services import local_services, note_disturbed

if TYPE_CHECKING:
    from services.contracts.jobs import Job, JobState

JobId = Annotated[str, typer.Argument(metavar="ID")]
LabelFilter = Annotated[
    list[str] | None,
    typer.Option(
        "--metadata", "-m", metavar="KEY=VALUE", help="Only jobs with this label; repeatable."
    ),
]
KindFilter = Annotated[JobKind | None, typer.Option(help="Only jobs of this kind.")]
StatusFilter = Annotated[JobStatus | None, typer.Option(help="Only jobs with this status.")]
ModelFilter = Annotated[
    str | None, typer.Option(help="Only jobs that work with this model, or made it; its whole id.")
]
TextFilter = Annotated[
    str | None,
    typer.Option(
        help="Only jobs with this text in their id, name, kind, model names, suffix, metadata, "
        "or the reason they wait or failed."
    ),
]
Limit = Annotated[int, typer.Option("-n", min=1, max=10_000, help="Maximum number of jobs.")]
EventLimit = Annotated[
    int, typer.Option("-n", min=1, max=100_000, help="Show this many of the latest events.")
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow", "-f", help="Keep printing until the job ends, then exit with its code."
    ),
]
TimeLimit = Annotated[
    float | None, typer.Option(min=0.0, help="Seconds to wait; no limit by default.")
]


def ps(
    status: StatusFilter = None,
    kind: KindFilter = None,
    metadata: LabelFilter = None,
    text: TextFilter = None,
    model: ModelFilter = None,
    most: Limit = 20,
    as_json: JsonOption = False,
) -> None:
    """List jobs of all kinds, newest first, and services of the stack that do not run."""
    from temper.client.errors import Unreachable

    out = Output(as_json)
    labels = parse_metadata(metadata)
    try:
        with connect() as client:
            page = client.jobs.page(
                kind=kind, status=status, metadata=labels, text=text, model=model, most=most
            )
            services = client.services()
    except Unreachable:
        note_disturbed(out, local_services())  # one of them may be the gateway
        raise
    if as_json:
        out.document(page)
    else:
        out.table(JOB_COLUMNS, (job_row(job) for job in page.data))
    if page.has_more and not as_json:
        out.note(f"more jobs exist; -n {most * 2} shows them")
    note_disturbed(out, services)


def show(job_id: JobId, as_json: JsonOption = False) -> None:
    """Show a job: status, progress, results."""
    from services.contracts.kinds import KINDS

    out = Output(as_json)
    with connect() as client:
        listed = client.jobs.get(job_id)
        job = client.detailed(listed)
    print_job(out, job, listed)
    if not as_json:
        path = KINDS[listed.kind].path if listed.kind in KINDS else client.jobs.path
        out.note(f"events:  temper logs {job_id}", "dim")
        out.note(f"REST:    curl {client.base_url}{path}/{job_id}", "dim")
        out.note(f"files:   curl {client.base_url}/v1/jobs/{job_id}/artifacts", "dim")


def logs(
    job_id: JobId, follow: Follow = False, most: EventLimit = 100, as_json: JsonOption = False
) -> None:
    """Show the events of a job. With --follow, Ctrl-C detaches; the job keeps running."""
    out = Output(as_json)
    with connect() as client:
        if follow:
            with detachable(out, job_id):
                done = Follower(client, out).follow(job_id, most)
            raise typer.Exit(of_job(done.status))
        page = client.jobs.events(job_id, most=most)
    for event in reversed(page.data):  # the API returns the newest first
        if as_json:
            out.json_line(event)
        else:
            out.results.print(event_line(event))


def cancel(job_id: JobId, as_json: JsonOption = False) -> None:
    """Cancel a job; temper wait returns once its processes have exited."""
    out = Output(as_json)
    with connect() as client:
        job = client.jobs.cancel(job_id)
    if as_json:
        out.document(job)
    elif job.status.is_final:
        out.line(f"{job_id} is {job.status.value}")
    else:
        out.line(f"{job_id} is being cancelled")


def pause(job_id: JobId, as_json: JsonOption = False) -> None:
    """Pause a job: it saves a checkpoint and frees its devices."""
    out = Output(as_json)
    with connect() as client:
        job = client.jobs.pause(job_id)
    if as_json:
        out.document(job)
    elif job.status is JobStatus.PAUSED:
        out.line(f"{job_id} is paused")
    else:
        out.line(f"{job_id} is pausing")


def resume(job_id: JobId, as_json: JsonOption = False) -> None:
    """Resume a paused job from the checkpoint of its pause."""
    out = Output(as_json)
    with connect() as client:
        job = client.jobs.resume(job_id)
    if as_json:
        out.document(job)
    else:
        out.line(f"{job_id} is {job.status.value}")


def retry(job_id: JobId, as_json: JsonOption = False) -> None:
    """Requeue a failed job; it resumes from its last checkpoint."""
    out = Output(as_json)
    with connect() as client:
        job = client.jobs.retry(job_id)
    if as_json:
        out.document(job)
    else:
        out.line(f"{job_id} is {job.status.value}")


def delete(job_id: JobId, as_json: JsonOption = False) -> None:
    """Delete a finished job with its folder, events, checkpoints and models."""
    out = Output(as_json)
    with connect() as client:
        deleted = client.jobs.delete(job_id)
    if as_json:
        out.document(deleted)
    else:
        out.line(f"{job_id} is deleted")


def wait(job_id: JobId, timeout: TimeLimit = None, as_json: JsonOption = False) -> None:
    """Wait until a job ends and exit with its code."""
    out = Output(as_json)
    with connect() as client:
        done = client.jobs.wait(job_id, timeout=timeout)
        print_job(out, client.detailed(done), done)
    raise typer.Exit(of_job(done.status))


def print_job(out: Output, job: JobState, listed: Job | None = None) -> None:
    """Print a job; see `job_fields`."""
    if out.as_json:
        out.document(job)
    else:
        out.fields(job_fields(job, listed))
