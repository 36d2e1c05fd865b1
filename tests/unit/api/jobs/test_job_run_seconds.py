"""How long a job has run: its attempts together, without pauses."""

import time
from dataclasses import replace

import pytest
from sqlalchemy import update

from services.core.db.engine import Database
from services.core.db.tables import AttemptRow
from services.core.ids import new_id
from services.jobs.attempts import begin_attempt, run_seconds, run_times
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job


@pytest.fixture
def job(database: Database) -> Job:
    new = NewJob(new_id("ftjob"), "fine_tuning", "training", "training.validation", request={})
    with database.write() as session:
        return create_job(session, new)


@pytest.mark.parametrize(
    ("attempts", "seconds"),
    [
        ([], None),
        ([(1000, 360)], 360),
        ([(1000, 360), (3000, 40)], 400),  # paused in between
        ([(1000, 360), (100, None)], 460),  # runs
    ],
)
def test_pauses_do_not_count(
    database: Database, job: Job, attempts: list[tuple[float, float | None]], seconds: float | None
) -> None:
    now = time.time()
    with database.write() as session:
        for epoch, (ago, lasted) in enumerate(attempts, 1):
            begin_attempt(session, replace(job, epoch=epoch), "host", [])
            ended = None if lasted is None else now - ago + lasted
            own = AttemptRow.job_id == job.id, AttemptRow.epoch == epoch
            times = {"started_at": now - ago, "ended_at": ended}
            session.execute(update(AttemptRow).where(*own).values(**times))
        found = run_seconds(session, [job.id, "ftjob-0"])
        ran = run_times(session, {job.id: (now - 3600, now), "ftjob-0": (None, None)})

    assert ran == {
        job.id: pytest.approx(3600 if seconds is None else seconds, abs=5),
        "ftjob-0": 0.0,
    }
    expected = {} if seconds is None else {job.id: pytest.approx(seconds, abs=5)}
    assert found == expected
