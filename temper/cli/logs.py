"""``temper logs``: what happened to a job."""

from typing import Annotated

import typer

from temper.cli.exit_codes import of_job
from temper.cli.follow import Follower, detachable
from temper.cli.gateway import connect
from temper.cli.job_view import event_line
from temper.cli.jobs import JobId
from temper.cli.output import JsonOption, Output

Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Go on until the job is over; exit with its code.")
]
Most = Annotated[int, typer.Option("-n", min=1, max=100_000, help="How many of the latest events.")]


def logs(
    job_id: JobId, follow: Follow = False, most: Most = 100, as_json: JsonOption = False
) -> None:
    """Show the events of a job. Ctrl-C ends the following, not the job."""
    out = Output(as_json)
    with connect() as client:
        if follow:
            with detachable(out, job_id):
                done = Follower(client, out).follow(job_id, most)
            raise typer.Exit(of_job(done.status))
        page = client.jobs.events(job_id, most=most)
    for event in reversed(page.data):  # the API gives the newest first
        if as_json:
            out.json_line(event)
        else:
            out.results.print(event_line(event))
