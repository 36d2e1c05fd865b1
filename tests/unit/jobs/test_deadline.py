"""Jobs that are past their deadline fail, wherever they wait."""

import pytest
from sqlalchemy import update

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.core.ids import new_id
from services.jobs.job import Job, NewJob
from services.jobs.pause import request_pause
from services.jobs.reconcile import fail_overdue
from services.jobs.store import create_job, move_job, retry_job
from tests.unit.jobs.machine import QUEUE, VALIDATION_QUEUE, claim, cpu_worker, read

SECONDS = 3600


@pytest.fixture
def job(database: Database) -> Job:
    with database.write() as session:
        new = NewJob(
            id=new_id("ftjob"),
            kind="fine_tuning",
            queue=QUEUE,
            validation_queue=VALIDATION_QUEUE,
            request={"deadline_seconds": SECONDS},
            gpus=0,
            deadline_seconds=SECONDS,
        )
        return create_job(session, new)


def queue(database: Database, job: Job) -> Job:
    with database.write() as session:
        return move_job(session, job, JobStatus.QUEUED, "valid")


def pass_deadline(database: Database) -> int:
    with database.write() as session:
        session.execute(update(JobRow).values(deadline_at=JobRow.created_at - 1))
    with database.write() as session:
        return fail_overdue(session)


def test_a_deadline_counts_from_the_creation(job: Job) -> None:
    assert job.deadline_at == pytest.approx(job.created_at + SECONDS, abs=60)


@pytest.mark.parametrize("status", ["validating_files", "queued", "paused"])
def test_an_overdue_job_fails_where_it_waits(database: Database, job: Job, status: str) -> None:
    if status != "validating_files":
        queue(database, job)
    if status == "paused":
        with database.write() as session:
            request_pause(session, job.id)

    assert pass_deadline(database) == 1

    failed = read(database, job.id)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (JobStatus.FAILED, "deadline_exceeded")
    assert f"{SECONDS} s" in failed.error.message
    assert failed.error.hint is not None
    assert "resumes from its last checkpoint" in failed.error.hint


def test_a_running_job_is_left_to_its_worker(database: Database, job: Job) -> None:
    queue(database, job)
    claim(database, cpu_worker())

    assert pass_deadline(database) == 0
    assert read(database, job.id).status is JobStatus.RUNNING


def test_a_job_before_its_deadline_waits_on(database: Database, job: Job) -> None:
    with database.write() as session:
        assert fail_overdue(session) == 0

    assert read(database, job.id).status is JobStatus.VALIDATING_FILES


def test_a_retried_job_has_the_same_time_again(database: Database, job: Job) -> None:
    queue(database, job)
    pass_deadline(database)

    with database.write() as session:
        retried = retry_job(session, job.id)

    assert retried.deadline_at is not None
    assert retried.deadline_at > retried.created_at
