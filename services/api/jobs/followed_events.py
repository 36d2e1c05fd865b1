"""/v1/events: the new events of several jobs, as one batch or as one stream for all of them."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from services.api.context import Gateway, GatewayContext
from services.api.jobs import events as one_job
from services.api.jobs.events import BATCH, EventStream, event_view
from services.contracts.errors import AuthenticationFailed, InvalidRequest, Unavailable
from services.contracts.jobs import Event, FollowedEnd, FollowedEvents
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.jobs.events import event_counts, events_after

router = APIRouter(
    prefix="/v1/events", tags=["jobs"], responses=documented_errors(AuthenticationFailed)
)

MAX_JOBS = 100
MAX_CURSOR = 10 * MAX_JOBS

FollowedJobs = Annotated[
    list[Annotated[str, Query(pattern=r"^[a-z]+-[0-9a-f]{24}$")]],
    Query(
        alias="job",
        min_length=1,
        max_length=MAX_JOBS,
        description="Id of a job to follow; repeatable.",
    ),
]
Cursor = Annotated[
    str | None,
    Query(
        max_length=MAX_CURSOR,
        pattern=r"^[0-9]{1,9}(\.[0-9]{1,9})*$",
        description="Cursor after which events are listed: for each job in order the number of "
        "its last event seen, joined by dots, as in the ids of the stream. Null: all events.",
    ),
]

_EXAMPLE = """\
id: 1.0
data: {"id": "ftevent-ftjob-0123456789abcdef01234567-1", "message": "Job created", ...}

event: end
id: 1.7
data: {"job_id": "rollout-0123456789abcdef01234567", "status": "succeeded"}

data: [DONE]
"""
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}}},
    **documented_errors(InvalidRequest, Unavailable),
}


@router.get(
    "",
    summary="List or follow the events of several jobs",
    response_model=FollowedEvents,
    responses=RESPONSES,
)
def followed(
    gateway: Gateway,
    _principal: Principal,
    jobs: FollowedJobs,
    after: Cursor = None,
    stream: Annotated[bool, Query(description="Follow live, as server-sent events.")] = False,
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", max_length=MAX_CURSOR)
    ] = None,
) -> FollowedEvents | EventStream:
    """The new events of up to 100 jobs, oldest first, so that a client needs one connection for all
    of them. A job that has ended, or does not exist, is named once its last event was sent."""
    if len(set(jobs)) < len(jobs):
        raise InvalidRequest("a job is named twice", param="job")
    place = Place(tuple(jobs), _numbers(last_event_id or after, len(jobs)))
    if stream:
        return EventStream(gateway, follow(gateway, place))
    batch = read(gateway, place)
    return FollowedEvents(
        data=[event for event, _ in batch.events],
        ended=batch.ended,
        cursor=batch.place.cursor,
        has_more=batch.has_more,
    )


def _numbers(cursor: str | None, count: int) -> tuple[int, ...]:
    if cursor is None:
        return (0,) * count
    parts = cursor.split(".")
    if len(parts) != count or not all(part.isascii() and part.isdigit() for part in parts):
        raise InvalidRequest(f"a cursor of {count} jobs has {count} numbers", param="after")
    return tuple(int(part[:9]) for part in parts)


@dataclass(frozen=True)
class Place:
    """The number of the last event seen of each followed job, and which of them have ended."""

    jobs: tuple[str, ...]
    numbers: tuple[int, ...]
    ended: frozenset[str] = frozenset()

    @property
    def cursor(self) -> str:
        """The place for clients."""
        return ".".join(map(str, self.numbers))

    def at(self, job_id: str, number: int) -> "Place":
        """The place after an event of a job."""
        pairs = zip(self.jobs, self.numbers, strict=True)
        numbers = tuple(number if job == job_id else known for job, known in pairs)
        return Place(self.jobs, numbers, self.ended)


@dataclass(frozen=True)
class Batch:
    """New events, each with the place after it, and the jobs that have ended since."""

    events: Sequence[tuple[Event, Place]]
    ended: list[FollowedEnd]
    place: Place
    has_more: bool


def read(gateway: GatewayContext, place: Place) -> Batch:
    """The next events after a place, shared fairly among the jobs that have any."""
    events: list[tuple[Event, Place]] = []
    ended: list[FollowedEnd] = []
    has_more = False
    seen = dict(zip(place.jobs, place.numbers, strict=True))
    open_jobs = [job_id for job_id in place.jobs if job_id not in place.ended]
    with gateway.database.read() as session:
        # The status and the number of events are of one moment: a final job has no later events.
        states = event_counts(session, open_jobs)
        pending = [job for job in open_jobs if job in states and states[job][1] > seen[job]]
        room = max(1, BATCH // max(1, len(pending)))
        for job_id in pending:
            for row in events_after(session, job_id, seen[job_id], room):
                place = place.at(job_id, row.number)
                seen[job_id] = row.number
                events.append((event_view(row), place))
            has_more |= seen[job_id] < states[job_id][1]
    for job_id in open_jobs:
        status, count = states.get(job_id, (None, 0))
        if status is None or (status.is_final and seen[job_id] >= count):
            ended.append(FollowedEnd(job_id=job_id, status=status))
    known = place.ended | {each.job_id for each in ended}
    return Batch(events, ended, Place(place.jobs, place.numbers, known), has_more)


async def follow(gateway: GatewayContext, place: Place) -> AsyncIterator[bytes]:
    """The frames of the jobs' events after a place, until no more can follow."""
    sent_at = time.monotonic()
    while True:
        batch = await asyncio.to_thread(read, gateway, place)
        place = batch.place
        for event, after in batch.events:
            yield format_sse_event(data_str=event.model_dump_json(), id=after.cursor)
        for end in batch.ended:
            yield format_sse_event(data_str=end.model_dump_json(), event="end", id=place.cursor)
        if batch.events or batch.ended:
            sent_at = time.monotonic()
        if len(place.ended) == len(place.jobs):
            yield format_sse_event(data_str="[DONE]")
            return
        if time.monotonic() - sent_at > one_job.PING_SECONDS:
            yield KEEPALIVE_COMMENT
            sent_at = time.monotonic()
        if not batch.has_more:
            await asyncio.sleep(one_job.POLL_SECONDS)
