"""``temper attempts``: which workers ran a job, on which devices, and how each run ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from temper.cli.gateway import connect
from temper.cli.jobs.jobs import JobId
from temper.cli.jobs.trajectory_text import escaped
from temper.cli.output import JsonOption, Output
from temper.cli.units import age, duration

if TYPE_CHECKING:
    from services.contracts.jobs import Attempt

Most = Annotated[int, typer.Option("-n", min=1, max=1000, help="Maximum number to list.")]

COLUMNS = ("ATTEMPT", "LEASE", "WORKER", "DEVICES", "STARTED", "TOOK", "OUTCOME", "REASON")


def attempts(job_id: JobId, most: Most = 100, as_json: JsonOption = False) -> None:
    """List the attempts at a job, latest first: worker, devices, times, and how each ended."""
    out = Output(as_json)
    with connect() as client:
        page = client.jobs.attempts(job_id, most=most)
    if as_json:
        out.document(page)
    else:
        out.table(COLUMNS, map(_row, page.data))


def _row(attempt: Attempt) -> tuple[str, ...]:
    ended = attempt.ended_at
    return (
        str(attempt.attempt),
        attempt.id,
        escaped(attempt.worker),
        escaped(", ".join(attempt.devices)),
        age(attempt.started_at),
        "" if ended is None else duration(ended - attempt.started_at),
        "running" if attempt.became is None else attempt.became.value,
        escaped(attempt.reason or ""),
    )
