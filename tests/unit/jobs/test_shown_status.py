"""The status that users see of a campaign: running while it waits for its own jobs."""

from itertools import product

import pytest
from sqlalchemy import update

from services.contracts.jobs import JobKind, JobStatus
from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.jobs.job import NewJob, shown_status
from services.jobs.store import JobFilter, count_jobs, create_job, get_job, list_jobs

REASONS = (None, "waiting for ftjob-1", "waiting for its turn", "no campaign worker is running")


@pytest.fixture
def jobs(database: Database) -> list[str]:
    """A job of each kind, status, beginning and reason."""
    made = []
    kinds = (JobKind.CAMPAIGN, JobKind.FINE_TUNING)
    with database.write() as session:
        for n, fields in enumerate(product(kinds, JobStatus, (None, 1.0), REASONS)):
            kind, status, started, reason = fields
            create_job(session, NewJob(f"job-{n}", kind.value, "work", "validation", request={}))
            values = {"status": status.value, "started_at": started, "queue_reason": reason}
            session.execute(update(JobRow).where(JobRow.id == f"job-{n}").values(**values))
            made.append(f"job-{n}")
    return made


def test_only_a_campaign_that_waits_amid_its_steps_is_shown_as_running(
    database: Database, jobs: list[str]
) -> None:
    with database.read() as session:
        every = [get_job(session, job_id) for job_id in jobs]
    changed = [job for job in every if shown_status(job) is not job.status]

    (job,) = changed
    assert (job.kind, job.status, job.started_at) == ("campaign", JobStatus.QUEUED, 1.0)
    assert job.queue_reason == "waiting for ftjob-1"
    assert shown_status(job) is JobStatus.RUNNING


def test_lists_and_counts_agree_with_it(database: Database, jobs: list[str]) -> None:
    with database.read() as session:
        shown = {each: shown_status(get_job(session, each)) for each in jobs}
        counts = count_jobs(session)
        for status in JobStatus:
            listed, _ = list_jobs(session, JobFilter(status=status), None, 1000)
            expected = {each for each, its_own in shown.items() if its_own is status}

            assert {job.id for job in listed} == expected
            assert sum(number for _, each, number in counts if each == status) == len(expected)
