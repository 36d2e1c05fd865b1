"""Pausing and resuming jobs in every state."""

from collections.abc import Callable

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from services.contracts.errors import Conflict
from services.contracts.jobs import JobStatus
from services.core.db.engine import Database, now
from services.core.db.tables import JobRow
from services.jobs.devices import release_devices
from services.jobs.events import events_after
from services.jobs.job import Job
from services.jobs.pause import request_pause, resume_after_outages, resume_job
from services.jobs.reconcile import recover_expired
from services.jobs.store import move_job, request_cancel
from tests.unit.jobs.machine import (
    claim,
    cpu_worker,
    new_job,
    queued_job,
    read,
    try_claim,
    try_claim_validation,
)


def pause(database: Database, job: Job) -> Job:
    with database.write() as session:
        return request_pause(session, job.id)


def resume(database: Database, job: Job) -> Job:
    with database.write() as session:
        return resume_job(session, job.id)


def messages(database: Database, job: Job) -> list[str]:
    with database.read() as session:
        return [event.message for event in events_after(session, job.id, 0, 100)]


def lose_worker(database: Database) -> None:
    with database.write() as session:
        session.execute(update(JobRow).values(lease_expires_at=0.0))
        recover_expired(session, 0.0)


def test_a_queued_job_is_held_until_it_is_resumed(database: Database) -> None:
    job = queued_job(database)

    assert pause(database, job).status is JobStatus.PAUSED
    assert try_claim(database, cpu_worker()) is None
    assert resume(database, job).status is JobStatus.QUEUED
    assert claim(database, cpu_worker()).job.id == job.id
    assert messages(database, job)[-3:-1] == ["Paused before it ran", "Resumed on request"]


def test_a_running_job_keeps_its_worker_until_it_has_paused(database: Database) -> None:
    job = queued_job(database)
    held = claim(database, cpu_worker())

    asked = pause(database, job)

    assert (asked.status, asked.owner, asked.phase) == (
        JobStatus.RUNNING,
        held.job.owner,
        "pausing",
    )
    assert asked.pause_requested_at is not None


def test_a_pause_while_validating_can_be_withdrawn(database: Database) -> None:
    job = new_job(database)
    try_claim_validation(database, cpu_worker())
    assert pause(database, job).status is JobStatus.VALIDATING_FILES

    assert resume(database, job).pause_requested_at is None


def test_a_worker_lost_while_pausing_leaves_a_paused_job(database: Database) -> None:
    job = queued_job(database)
    held = claim(database, cpu_worker())
    pause(database, job)

    lose_worker(database)

    left = read(database, job.id)
    assert (left.status, left.owner, left.phase) == (JobStatus.PAUSED, None, None)
    assert f"Paused; worker {held.job.owner} was lost" in messages(database, job)[-1]


def test_a_worker_lost_while_validating_keeps_the_request(database: Database) -> None:
    job = new_job(database)
    try_claim_validation(database, cpu_worker())
    pause(database, job)

    lose_worker(database)

    left = read(database, job.id)
    assert left.status is JobStatus.VALIDATING_FILES
    assert left.pause_requested_at is not None


def test_a_paused_job_can_be_cancelled(database: Database) -> None:
    job = pause(database, queued_job(database))

    with database.write() as session:
        assert request_cancel(session, job.id).status is JobStatus.CANCELLED

    assert messages(database, job)[-1] == "Cancelled while paused"


def test_a_success_that_came_first_wins_over_the_pause(database: Database) -> None:
    queued_job(database)
    held = claim(database, cpu_worker())
    asked = pause(database, held.job)

    with database.write() as session:
        done = move_job(session, asked, JobStatus.SUCCEEDED, "done")

    assert done.pause_requested_at is None


def succeed(session: Session, job: Job) -> None:
    move_job(session, job, JobStatus.SUCCEEDED, "done")


def cancel(session: Session, job: Job) -> None:
    request_cancel(session, job.id)


def ask_twice(session: Session, job: Job) -> None:
    request_pause(session, job.id)


@pytest.mark.parametrize(
    ("before", "code"),
    [(succeed, "job_already_final"), (cancel, "job_being_cancelled"), (ask_twice, "job_pausing")],
)
def test_a_running_job_cannot_be_paused_after(
    database: Database, before: Callable[[Session, Job], None], code: str
) -> None:
    queued_job(database)
    held = claim(database, cpu_worker())
    with database.write() as session:
        before(session, held.job)

    with pytest.raises(Conflict) as caught:
        pause(database, held.job)

    assert caught.value.code == code


def test_a_paused_job_cannot_be_paused_again(database: Database) -> None:
    job = pause(database, queued_job(database))

    with pytest.raises(Conflict, match="already paused"):
        pause(database, job)


def test_only_a_paused_job_can_be_resumed(database: Database) -> None:
    job = queued_job(database)
    with pytest.raises(Conflict, match="is queued, not paused"):
        resume(database, job)

    held = claim(database, cpu_worker())
    pause(database, held.job)
    with pytest.raises(Conflict, match="still pausing"):
        resume(database, job)


def waiting_for_the_end_of_an_outage(database: Database, seconds: float) -> Job:
    """A job that paused by itself."""
    queued_job(database)
    held = claim(database, cpu_worker())
    with database.write() as session:
        later = now(session) + seconds
        move_job(session, held.job, JobStatus.PAUSED, "Paused", not_before=later, queue_reason="x")
        release_devices(session, held.job.id, held.job.epoch)
    return read(database, held.job.id)


def resume_due(database: Database) -> int:
    with database.write() as session:
        return resume_after_outages(session)


def test_a_job_is_tried_again_once_its_delay_is_over(database: Database) -> None:
    job = waiting_for_the_end_of_an_outage(database, -1.0)
    paused_by_a_user = pause(database, queued_job(database))
    waiting_for_the_end_of_an_outage(database, 60.0)

    assert resume_due(database) == 1

    resumed = read(database, job.id)
    assert (resumed.status, resumed.not_before, resumed.queue_reason) == (
        JobStatus.QUEUED,
        None,
        None,
    )
    assert read(database, paused_by_a_user.id).status is JobStatus.PAUSED


def test_a_job_in_an_outage_can_be_resumed_at_once(database: Database) -> None:
    job = waiting_for_the_end_of_an_outage(database, 60.0)

    assert resume(database, job).status is JobStatus.QUEUED
    assert claim(database, cpu_worker()).job.id == job.id


def test_a_pause_on_request_ends_the_tries(database: Database) -> None:
    job = waiting_for_the_end_of_an_outage(database, -1.0)

    held = pause(database, job)

    assert (held.status, held.not_before) == (JobStatus.PAUSED, None)
    assert resume_due(database) == 0
    with pytest.raises(Conflict):
        pause(database, job)
