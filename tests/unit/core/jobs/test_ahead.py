"""Which job a queued one waits for."""

import pytest
from sqlalchemy import update

from services.api.jobs.view import job_view
from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.core.jobs.ahead import Holder, first_holders
from services.core.jobs.job import Job
from tests.unit.core.jobs.machine import claim, gpu_worker, queued_job, read


def holder_of(database: Database, *jobs: Job) -> list[Holder | None]:
    now = [read(database, job.id) for job in jobs]
    with database.read() as session:
        found = first_holders(session, now)
    return [found.get(job.id) for job in jobs]


def expect_end(database: Database, job: Job, seconds: float | None) -> None:
    with database.write() as session:
        session.execute(update(JobRow).where(JobRow.id == job.id).values(eta_seconds=seconds))


@pytest.mark.parametrize(
    ("ends", "first"), [((90.0, 60.0), 1), ((None, 60.0), 1), ((30.0, None), 0)]
)
def test_a_job_waits_for_the_holder_that_should_end_first(
    database: Database, ends: tuple[float | None, float | None], first: int
) -> None:
    worker = gpu_worker("GPU-a", "GPU-b")
    jobs = [queued_job(database, gpus=1) for _ in range(3)]
    held = [claim(database, worker).job for _ in ends]
    with database.write() as session:
        reason = "waiting for 1 GPU; 0 free on host"
        waits = update(JobRow).where(JobRow.id == jobs[2].id)
        session.execute(waits.values(queue_reason=reason))
    for job, seconds in zip(held, ends, strict=True):
        expect_end(database, job, seconds)

    running, waiting = holder_of(database, held[0], jobs[2])

    assert running is None
    assert waiting == Holder(held[first].id, ends[first])
    shown = job_view(read(database, jobs[2].id), ahead=waiting).ahead
    assert shown is not None
    assert (shown.id, shown.eta_seconds) == (held[first].id, ends[first])


def test_a_job_that_waits_for_another_kind_of_device_has_nobody_ahead(database: Database) -> None:
    queued_job(database, gpus=1)
    claim(database, gpu_worker("GPU-a"))
    other = queued_job(database, gpus=0)
    turn = queued_job(database, gpus=1)
    reasons = {other.id: "waiting for 1 CPU slot; 0 free on host", turn.id: None}
    with database.write() as session:
        for job_id, reason in reasons.items():
            session.execute(update(JobRow).where(JobRow.id == job_id).values(queue_reason=reason))

    assert holder_of(database, other, turn) == [None, None]
