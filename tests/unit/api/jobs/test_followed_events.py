"""The events of several jobs in one batch or stream, read from a real database."""

import asyncio
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.api.context import GatewayContext
from services.api.jobs import events as one_job
from services.api.jobs import followed_events
from services.api.jobs.followed_events import Place, follow, read
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.ids import new_id
from services.jobs.events import append_event
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job, move_job


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_job, "POLL_SECONDS", 0.01)


@pytest.fixture
def gateway(database: Database) -> GatewayContext:
    return cast("GatewayContext", SimpleNamespace(database=database))


def new_job(database: Database) -> Job:
    new = NewJob(new_id("ftjob"), "fine_tuning", "training", "training.validation", request={})
    with database.write() as session:
        return create_job(session, new)


def add_events(database: Database, job: Job, number: int) -> None:
    with database.write() as session:
        for n in range(number):
            append_event(session, job.id, f"event {n}")


def cancel(database: Database, job: Job) -> None:
    with database.write() as session:
        move_job(session, job, JobStatus.CANCELLED, "Cancelled")


def start(*jobs: Job) -> Place:
    return Place(tuple(job.id for job in jobs), (0,) * len(jobs))


async def collect(frames: AsyncIterator[bytes]) -> list[dict[str, str]]:
    """The frames by their fields, without comments."""
    found = []
    async for frame in frames:
        lines = [line.split(": ", 1) for line in frame.decode().splitlines() if ": " in line]
        found.append({name: value for name, value in lines if name})
    return found


@pytest.mark.parametrize("batch", [1, 3, 500])
def test_one_stream_has_every_event_of_every_job_once_and_in_order(
    gateway: GatewayContext, database: Database, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(followed_events, "BATCH", batch)
    jobs = [new_job(database) for _ in range(3)]
    for number, job in enumerate(jobs):
        add_events(database, job, 4 * number)
        cancel(database, job)

    *frames, done = asyncio.run(collect(follow(gateway, start(*jobs))))
    events = [json.loads(frame["data"]) for frame in frames if "event" not in frame]
    for number, job in enumerate(jobs):
        own = [each["id"].rpartition("-")[2] for each in events if job.id in each["id"]]
        assert own == [str(n) for n in range(1, 4 * number + 3)]
    ends = [json.loads(frame["data"]) for frame in frames if frame.get("event") == "end"]
    assert {end["job_id"]: end["status"] for end in ends} == {job.id: "cancelled" for job in jobs}
    assert done == {"data": "[DONE]"}


def test_a_stream_continues_after_any_id(gateway: GatewayContext, database: Database) -> None:
    one, other = new_job(database), new_job(database)
    add_events(database, one, 3)
    add_events(database, other, 5)
    cancel(database, one)
    cancel(database, other)
    whole = asyncio.run(collect(follow(gateway, start(one, other))))
    sent = [frame for frame in whole if "event" not in frame and "id" in frame]

    for cut, frame in enumerate(sent, 1):
        numbers = tuple(map(int, frame["id"].split(".")))
        rest = asyncio.run(collect(follow(gateway, Place((one.id, other.id), numbers))))
        again = [each["data"] for each in rest if "event" not in each and "id" in each]
        assert sorted(again) == sorted(each["data"] for each in sent[cut:])


def test_a_job_that_does_not_exist_does_not_end_the_others(
    gateway: GatewayContext, database: Database
) -> None:
    job, gone = new_job(database), new_id("ftjob")

    async def scenario() -> list[str]:
        frames = follow(gateway, Place((gone, job.id), (0, 0)))
        first = [await anext(frames) for _ in range(2)]
        add_events(database, job, 1)
        return [frame.decode() for frame in [*first, await anext(frames)]]

    event, end, later = asyncio.run(scenario())
    assert "event 0" not in event
    assert f'{{"job_id":"{gone}","status":null}}' in end
    assert "event 0" in later


def test_a_batch_is_fair_and_says_whether_there_is_more(
    gateway: GatewayContext, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_events, "BATCH", 4)
    busy, quiet = new_job(database), new_job(database)
    add_events(database, busy, 20)
    batch = read(gateway, start(busy, quiet))

    assert [busy.id in event.id for event, _ in batch.events] == [True, True, False]
    assert batch.has_more
    assert batch.place.cursor == "2.1"


@given(numbers=st.lists(st.integers(0, 10**9 - 1), min_size=1, max_size=100))
def test_cursors_are_read_as_they_are_written(numbers: list[int]) -> None:
    place = Place(tuple(map(str, range(len(numbers)))), tuple(numbers))

    assert followed_events._numbers(place.cursor, len(numbers)) == place.numbers
    with pytest.raises(InvalidRequest, match="numbers"):
        followed_events._numbers(place.cursor, len(numbers) + 1)
