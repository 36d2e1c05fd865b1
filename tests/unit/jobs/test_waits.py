"""Jobs that wait for the end of others."""

from sqlalchemy import delete, select, update

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database, now
from services.core.db.tables import JobRow, OutboxRow
from services.jobs.queues import await_any
from services.jobs.store import request_cancel
from tests.unit.jobs.machine import new_job, queued_job


def waits_for(database: Database, job_id: str, *awaited: str) -> bool:
    """Queue a job for an hour, or until one of others ends; false when one has ended already."""
    with database.write() as session:
        waits = await_any(session, job_id, awaited)
        later = update(JobRow).where(JobRow.id == job_id).values(not_before=now(session) + 3600.0)
        session.execute(later)
        session.execute(delete(OutboxRow))
    return waits


def is_due(database: Database, job_id: str) -> bool:
    with database.read() as session:
        row = session.scalars(select(JobRow).where(JobRow.id == job_id)).one()
        return row.not_before is None


def woken(database: Database) -> list[str]:
    with database.read() as session:
        return list(session.scalars(select(OutboxRow.queue)))


def test_the_end_of_a_job_wakes_those_that_wait_for_it_and_no_others(database: Database) -> None:
    ending, other = new_job(database).id, new_job(database).id
    waiting, unaffected = queued_job(database).id, queued_job(database).id
    assert waits_for(database, waiting, ending, other)
    assert waits_for(database, unaffected, other)

    with database.write() as session:
        request_cancel(session, ending)

    assert is_due(database, waiting)
    assert not is_due(database, unaffected)
    assert woken(database) == ["training"]


def test_a_job_waits_only_for_what_it_has_asked_for_last(database: Database) -> None:
    earlier, later = new_job(database).id, new_job(database).id
    waiting = queued_job(database).id
    assert waits_for(database, waiting, earlier)
    assert waits_for(database, waiting, later)

    with database.write() as session:
        request_cancel(session, earlier)

    assert not is_due(database, waiting)


def test_a_job_does_not_wait_for_one_that_has_ended_meanwhile(database: Database) -> None:
    ended, waiting = new_job(database).id, queued_job(database).id
    with database.write() as session:
        assert request_cancel(session, ended).status is JobStatus.CANCELLED

    assert not waits_for(database, waiting, ended)
