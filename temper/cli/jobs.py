"""``temper ps``, ``show``, ``cancel`` and ``wait``: jobs of every kind."""

from typing import Annotated

import typer

from services.contracts.jobs import JobKind, JobState, JobStatus
from temper.cli.exit_codes import of_job
from temper.cli.gateway import connect
from temper.cli.job_view import JOB_COLUMNS, RESOURCES, job_fields, job_row
from temper.cli.metadata import MetadataOption, parse_metadata
from temper.cli.output import JsonOption, Output
from temper.client import Temper

JobId = Annotated[str, typer.Argument(metavar="ID")]
KindFilter = Annotated[JobKind | None, typer.Option(help="Only jobs of this kind.")]
StatusFilter = Annotated[JobStatus | None, typer.Option(help="Only jobs of this status.")]
Most = Annotated[int, typer.Option("-n", min=1, max=10_000, help="How many at most.")]
TimeLimit = Annotated[
    float | None, typer.Option(min=0.0, help="Seconds to wait; for ever without it.")
]


def ps(
    status: StatusFilter = None,
    kind: KindFilter = None,
    metadata: MetadataOption = None,
    most: Most = 20,
    as_json: JsonOption = False,
) -> None:
    """List jobs of all kinds, newest first."""
    out = Output(as_json)
    labels = parse_metadata(metadata)
    with connect() as client:
        page = client.jobs.page(kind=kind, status=status, metadata=labels, most=most)
    if as_json:
        out.document(page)
        return
    out.table(JOB_COLUMNS, (job_row(job) for job in page.data))
    if page.has_more:
        out.note(f"there are more; -n {most * 2} shows them")


def show(job_id: JobId, as_json: JsonOption = False) -> None:
    """Show one job: what it does, how far it is, what came of it."""
    out = Output(as_json)
    with connect() as client:
        kind = client.jobs.get(job_id).kind
        job = full_job(client, kind, job_id)
    print_job(out, job)
    if not as_json:
        out.note(f"events:  temper logs {job_id}", "dim")
        out.note(f"REST:    curl {client.base_url}{RESOURCES[kind]}/{job_id}", "dim")


def cancel(job_id: JobId, as_json: JsonOption = False) -> None:
    """Ask for a job to end; temper wait tells when its processes are gone."""
    out = Output(as_json)
    with connect() as client:
        job = client.jobs.cancel(job_id)
    if as_json:
        out.document(job)
    elif job.status.is_final:
        out.line(f"{job_id} is {job.status.value}")
    else:
        out.line(f"{job_id} is being cancelled")


def wait(job_id: JobId, timeout: TimeLimit = None, as_json: JsonOption = False) -> None:
    """Wait until a job is over; the exit code is the job's."""
    out = Output(as_json)
    with connect() as client:
        done = client.jobs.wait(job_id, timeout=timeout)
        print_job(out, full_job(client, done.kind, job_id))
    raise typer.Exit(of_job(done.status))


def full_job(client: Temper, kind: str, job_id: str) -> JobState:
    """Return a job with the fields of its own kind."""
    match kind:
        case JobKind.FINE_TUNING:
            return client.fine_tuning.get(job_id)
        case JobKind.EVALUATION:
            return client.evaluations.get(job_id)
        case JobKind.ROLLOUT:
            return client.rollouts.get(job_id)
        case JobKind.INDEXING:
            return client.indexing.get(job_id)
    return client.jobs.get(job_id)


def print_job(out: Output, job: JobState) -> None:
    """Print one job."""
    if out.as_json:
        out.document(job)
    else:
        out.fields(job_fields(job))
