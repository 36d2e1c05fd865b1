"""Creating, listing, cancelling; events."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from services.contracts.errors import Conflict, NotFound
from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import Database
from services.core.db.tables import JobRow, OutboxRow
from services.jobs.events import append_event, events_after, events_before
from services.jobs.job import IllegalMove, Job
from services.jobs.store import (
    JobFilter,
    fail_job,
    get_job,
    list_jobs,
    move_job,
    request_cancel,
    retry_job,
)
from services.jobs.worker.reports import parse_report, record_reports
from tests.unit.jobs.machine import (
    claim,
    cpu_worker,
    new_job,
    queued_job,
    read,
    try_claim_validation,
)


def test_a_new_job_has_a_wake_up_and_a_first_event(database: Database) -> None:
    job = new_job(database, metadata={"team": "a"})

    with database.read() as session:
        queues = session.scalars(select(OutboxRow.queue)).all()
        events = events_after(session, job.id, 0, 10)
    assert job.status is JobStatus.VALIDATING_FILES
    assert job.metadata == {"team": "a"}
    assert queues == ["training.validation"]
    assert [event.number for event in events] == [1]


def test_a_failed_transaction_leaves_nothing_of_the_job(database: Database) -> None:
    job = queued_job(database)

    with pytest.raises(RuntimeError), database.write() as session:
        move_job(session, job, JobStatus.CANCELLED, "cancelled")
        raise RuntimeError

    with database.read() as session:
        assert get_job(session, job.id).status is JobStatus.QUEUED
        assert "cancelled" not in {event.message for event in events_after(session, job.id, 0, 9)}


@pytest.mark.parametrize("to", [JobStatus.QUEUED, JobStatus.PAUSED, JobStatus.FAILED])
@pytest.mark.parametrize(("saved", "step"), [((), 0), ((200,), 200), ((200, 400), 400)])
def test_a_training_that_waits_shows_the_step_that_it_goes_on_from(
    database: Database, to: JobStatus, saved: tuple[int, ...], step: int
) -> None:
    queued_job(database)
    held = claim(database, cpu_worker())
    lines: list[dict[str, Any]] = [
        {"type": "checkpoint", "step": each, "path": "output"} for each in saved
    ]
    lines.append({"type": "progress", "step": 543, "total_steps": 6000, "eta_seconds": None})
    reports = [parse_report(json.dumps(line).encode()) for line in lines]
    with database.write() as session:
        record_reports(session, held, reports, 100)
        ended = move_job(session, get_job(session, held.job.id), to, "ended")
        if to is JobStatus.FAILED:  # shown where it failed, until it is to go on
            assert ended.step == 543
            ended = retry_job(session, ended.id)

    assert (ended.step, ended.total_steps) == (step, 6000)


def test_a_job_that_saves_as_it_goes_keeps_its_progress(database: Database) -> None:
    queued_job(database)
    held = claim(database, cpu_worker())
    with database.write() as session:
        session.execute(update(JobRow).values(kind="evaluation", step=543, total_steps=6000))
        queued = move_job(session, get_job(session, held.job.id), JobStatus.QUEUED, "stopped")

    assert queued.step == 543


def test_a_waiting_job_is_cancelled_immediately(database: Database) -> None:
    job = queued_job(database)

    with database.write() as session:
        cancelled = request_cancel(session, job.id)

    assert cancelled.status is JobStatus.CANCELLED
    assert cancelled.finished_at is not None


def test_cancelling_a_running_job_notifies_its_worker(database: Database) -> None:
    queued_job(database)
    running = claim(database, cpu_worker()).job

    with database.write() as session:
        first = request_cancel(session, running.id)
        second = request_cancel(session, running.id)

    assert first.status is JobStatus.RUNNING
    assert first.cancel_requested_at == second.cancel_requested_at is not None


def test_cancelling_twice_is_allowed_and_cancelling_a_finished_job_conflicts(
    database: Database,
) -> None:
    job = queued_job(database)
    finished = claim(database, cpu_worker()).job
    with database.write() as session:
        move_job(session, finished, JobStatus.SUCCEEDED, "done")
    other = queued_job(database)

    with database.write() as session:
        request_cancel(session, other.id)
        assert request_cancel(session, other.id).status is JobStatus.CANCELLED
    with pytest.raises(Conflict), database.write() as session:
        request_cancel(session, job.id)


@pytest.mark.parametrize("to", list(JobStatus))
def test_a_final_status_never_changes(database: Database, to: JobStatus) -> None:
    job = queued_job(database)
    with database.write() as session:
        cancelled = move_job(session, job, JobStatus.CANCELLED, "cancelled")

    with pytest.raises(IllegalMove), database.write() as session:
        move_job(session, cancelled, to, "again")

    assert read(database, job.id).status is JobStatus.CANCELLED


def failed(database: Database, job: Job) -> Job:
    with database.write() as session:
        return fail_job(session, job, JobError(code="x", message="why"))


def test_a_failed_job_can_be_retried(database: Database) -> None:
    queued_job(database)
    job = failed(database, claim(database, cpu_worker(slots=2)).job)

    with database.write() as session:
        retry_job(session, job.id)

    retried = read(database, job.id)
    assert (retried.status, retried.error, retried.finished_at) == (JobStatus.QUEUED, None, None)
    assert claim(database, cpu_worker(slots=2)).job.id == job.id


def test_a_job_with_invalid_files_is_validated_again_when_retried(database: Database) -> None:
    job = failed(database, new_job(database))

    with database.write() as session:
        assert retry_job(session, job.id).status is JobStatus.VALIDATING_FILES

    assert try_claim_validation(database, cpu_worker()) is not None


def test_only_failed_jobs_can_be_retried(database: Database) -> None:
    job = queued_job(database)

    with pytest.raises(Conflict, match="queued"), database.write() as session:
        retry_job(session, job.id)


def test_jobs_are_listed_newest_first_in_pages_and_by_filter(database: Database) -> None:
    jobs = [new_job(database, metadata={"n": str(n % 2)}) for n in range(5)]
    queued_job(database)

    with database.read() as session:
        wanted = JobFilter(status=JobStatus.VALIDATING_FILES)
        first, more = list_jobs(session, wanted, None, 3)
        rest, no_more = list_jobs(session, wanted, first[-1].id, 3)
        odd, _ = list_jobs(session, JobFilter(metadata={"n": "1"}), None, 10)
        none, _ = list_jobs(session, JobFilter(kind="other"), None, 10)

    assert [job.id for job in [*first, *rest]] == [job.id for job in reversed(jobs)]
    assert (more, no_more) == (True, False)
    assert [job.id for job in odd] == [jobs[3].id, jobs[1].id]
    assert none == []


def test_a_job_of_another_kind_is_not_found(database: Database) -> None:
    job = new_job(database)

    with database.read() as session, pytest.raises(NotFound):
        get_job(session, job.id, kind="evaluation")


def test_events_are_numbered_without_gaps_and_read_from_either_end(database: Database) -> None:
    job = new_job(database)
    for number in range(2, 6):
        with database.write() as session:
            append_event(session, job.id, f"event {number}")

    with database.read() as session:
        forwards = [event.number for event in events_after(session, job.id, 2, 10)]
        backwards = [event.number for event in events_before(session, job.id, 4, 2)]

    assert forwards == [3, 4, 5]
    assert backwards == [3, 2]


@pytest.mark.drill
def test_a_database_can_be_migrated_by_many_processes_at_once(tmp_path: Path) -> None:
    import concurrent.futures
    import subprocess
    import sys

    script = (
        "import sys; from services.core.db.engine import Database; "
        "from services.core.db.migrate import migrate; migrate(Database(sys.argv[1]))"
    )
    url = f"sqlite:///{tmp_path / 'fresh.db'}"
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        runs = [
            pool.submit(subprocess.run, [sys.executable, "-c", script, url], check=False)
            for _ in range(4)
        ]

    assert [run.result().returncode for run in runs] == [0, 0, 0, 0]
