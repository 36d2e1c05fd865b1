"""Frames of an event stream, read from a real database."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import delete

from services.api.context import GatewayContext
from services.api.jobs import events as stream
from services.api.jobs.events import event_number
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.db.tables import EventRow, JobRow
from services.core.ids import new_id
from services.jobs.events import append_event
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job, move_job

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "POLL_SECONDS", 0.01)


@pytest.fixture
def job(database: Database) -> Job:
    new = NewJob(
        id=new_id("ftjob"),
        kind="fine_tuning",
        queue="training",
        validation_queue="training.validation",
        request={},
    )
    with database.write() as session:
        return create_job(session, new)


def add_events(database: Database, job: Job, number: int) -> None:
    with database.write() as session:
        for n in range(number):
            append_event(session, job.id, f"event {n}")


def cancel(database: Database, job: Job) -> None:
    with database.write() as session:
        move_job(session, job, JobStatus.CANCELLED, "Cancelled")


def follow(database: Database, job: Job, behind: int = 0) -> AsyncIterator[bytes]:
    gateway = cast("GatewayContext", SimpleNamespace(database=database))
    return stream.follow_events(gateway, job.id, behind)


async def take(frames: AsyncIterator[bytes], number: int) -> list[bytes]:
    return [await asyncio.wait_for(anext(frames), 60) for _ in range(number)]


def frame_number(frame: bytes) -> int:
    event_id = next(line for line in frame.splitlines() if line.startswith(b"id: "))
    return int(event_id.rpartition(b"-")[2])


@pytest.mark.parametrize("batch", [1, 2, 3, 500])
@pytest.mark.parametrize("behind", [0, 3, 7])
def test_every_event_after_the_last_seen_is_sent_once(
    database: Database, job: Job, monkeypatch: pytest.MonkeyPatch, batch: int, behind: int
) -> None:
    monkeypatch.setattr(stream, "BATCH", batch)
    add_events(database, job, 5)
    cancel(database, job)  # the seventh event, and the last

    frames = asyncio.run(collect(follow(database, job, behind)))

    assert [frame_number(frame) for frame in frames[:-1]] == list(range(behind + 1, 8))
    assert frames[-1] == DONE


async def collect(frames: AsyncIterator[bytes]) -> list[bytes]:
    return [frame async for frame in frames]


def test_an_idle_stream_sends_keep_alive_comments(
    database: Database, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PING_SECONDS", 0.0)

    async def scenario() -> None:
        frames = follow(database, job)
        first, *pings = await take(frames, 4)
        assert frame_number(first) == 1
        assert pings == [PING] * 3
        add_events(database, job, 1)
        while (frame := (await take(frames, 1))[0]) == PING:
            pass
        assert frame_number(frame) == 2

    asyncio.run(scenario())


def test_multiline_text_stays_one_event(database: Database, job: Job) -> None:
    with database.write() as session:
        append_event(session, job.id, "one\ntwo\r\n\r\ndata: [DONE]")
    cancel(database, job)

    frames = asyncio.run(collect(follow(database, job, behind=1)))

    assert len(frames) == 3
    assert frames[0].count(b"\n\n") == 1


@pytest.mark.parametrize("number", ["1", "999999999"])
def test_the_event_number_is_parsed_from_its_id(job: Job, number: str) -> None:
    assert event_number(job.id, f"ftevent-{job.id}-{number}") == int(number)


@pytest.mark.parametrize("suffix", ["", "-", "-x", "--1", "-1-1", "-1 ", "-٣", "-9999999999"])
def test_ids_that_are_not_events_of_the_job_are_rejected(job: Job, suffix: str) -> None:
    with pytest.raises(InvalidRequest):
        event_number(job.id, f"ftevent-{job.id}{suffix}")
    with pytest.raises(InvalidRequest):
        event_number(job.id, f"ftevent-{new_id('ftjob')}-1")


def test_the_stream_of_a_job_that_is_deleted_ends(database: Database, job: Job) -> None:
    add_events(database, job, 2)
    already = job.event_count

    async def frames() -> list[bytes]:
        following = follow(database, job, already)
        await take(following, 2)
        with database.write() as session:
            session.execute(delete(EventRow).where(EventRow.job_id == job.id))
            session.execute(delete(JobRow).where(JobRow.id == job.id))
        return [frame async for frame in following]

    assert asyncio.run(frames()) == [DONE]
