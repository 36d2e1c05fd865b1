"""Events of a job: pages, and the live stream as server-sent events."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from fastapi import Depends, Header, Query
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from sqlalchemy.orm import Session
from starlette.types import Receive, Scope, Send

from services.api.context import GatewayContext
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import InvalidRequest, NotFound, Unavailable
from services.contracts.jobs import Event
from services.core.db.tables import EventRow
from services.core.web.errors import documented_errors, error_answer
from services.core.web.paging import After, Limit, page_of
from services.jobs.events import events_after, events_before
from services.jobs.store import get_job

_EVENT_ID = re.compile(r"ftevent-(?P<job>[a-z]+-[0-9a-f]{24})-(?P<number>[0-9]{1,9})")


def list_events(session: Session, job_id: str, *, after: str | None, limit: int) -> Page[Event]:
    """A page of events, newest first."""
    number = event_number(job_id, after) if after is not None else None
    rows = events_before(session, job_id, number, limit + 1)
    return page_of([event_view(row) for row in rows[:limit]], len(rows) > limit)


def event_view(row: EventRow) -> Event:
    """The wire view of an event."""
    return Event(
        id=f"ftevent-{row.job_id}-{row.number}",
        created_at=int(row.created_at),
        level=cast("Literal['info', 'warn', 'error']", row.level),
        message=row.message,
        type=cast("Literal['message', 'metrics']", row.type),
        data=row.data,
    )


def event_number(job_id: str, event_id: str) -> int:
    """The number within its job that an event's id carries."""
    match = _EVENT_ID.fullmatch(event_id)
    if match is None or match["job"] != job_id:
        raise InvalidRequest(f"{event_id[:80]!r} is not an event of job {job_id}", param="after")
    return int(match["number"])


POLL_SECONDS = 0.3
PING_SECONDS = 15.0
BATCH = 500
# Keeps caches and proxies from buffering the stream.
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(EventSourceResponse):
    """A response that occupies one of the gateway's stream slots while it runs."""

    def __init__(self, gateway: GatewayContext, frames: AsyncIterator[bytes]) -> None:
        super().__init__(frames, headers=HEADERS)
        self._slots = gateway.stream_slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream, or respond with 503 when all slots are taken."""
        if not self._slots.acquire(blocking=False):
            error = Unavailable("too many event streams are open", code="too_many_streams")
            await error_answer(error)(scope, receive, send)
            return
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._slots.release()


async def follow_events(
    gateway: GatewayContext, job_id: str, last_seen: int
) -> AsyncIterator[bytes]:
    """The frames of a job's events after number ``last_seen``, until no more can follow."""
    sent_at = time.monotonic()
    while True:
        events, last_seen, is_complete = await asyncio.to_thread(_read, gateway, job_id, last_seen)
        for event in events:
            yield format_sse_event(data_str=event.model_dump_json(), id=event.id)
            sent_at = time.monotonic()
        if is_complete:
            yield format_sse_event(data_str="[DONE]")
            return
        if time.monotonic() - sent_at > PING_SECONDS:
            yield KEEPALIVE_COMMENT
            sent_at = time.monotonic()
        if not events:
            await asyncio.sleep(POLL_SECONDS)


def _read(gateway: GatewayContext, job_id: str, last_seen: int) -> tuple[list[Event], int, bool]:
    """The next events, the number of the last one, and whether no more can follow, as after the
    job was deleted."""
    with gateway.database.read() as session:
        # The status is read first: events committed with a final status are then seen too.
        try:
            final = get_job(session, job_id).status.is_final
        except NotFound:
            return [], last_seen, True
        rows = events_after(session, job_id, last_seen, BATCH)
    events = [event_view(row) for row in rows]
    return events, rows[-1].number if rows else last_seen, final and len(rows) < BATCH


EventsResponse = Page[Event] | EventStream

_STREAM_EXAMPLE = """\
id: ftevent-ftjob-0123456789abcdef01234567-1
data: {"id": "ftevent-ftjob-0123456789abcdef01234567-1", "message": "Job created", ...}

: ping

data: [DONE]
"""
EVENTS_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _STREAM_EXAMPLE}}
    },
    **documented_errors(InvalidRequest, NotFound, Unavailable),
}
"""OpenAPI responses of an events route."""


@dataclass(frozen=True)
class EventQuery:
    """A page of events, or their stream."""

    after: str | None
    limit: int
    stream: bool
    last_event_id: str | None

    def respond(
        self, gateway: GatewayContext, job_id: str, kind: str | None = None
    ) -> EventsResponse:
        """Respond for one job; raises `NotFound` for a job of another ``kind``."""
        with gateway.database.read() as session:
            get_job(session, job_id, kind)
            if not self.stream:
                return list_events(session, job_id, after=self.after, limit=self.limit)
        last = self.last_event_id or self.after
        number = event_number(job_id, last) if last else 0
        return EventStream(gateway, follow_events(gateway, job_id, number))


async def _event_query(
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    stream: Annotated[bool, Query(description="Follow live, as server-sent events.")] = False,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=300)] = None,
) -> EventQuery:
    return EventQuery(after, limit, stream, last_event_id)


Events = Annotated[EventQuery, Depends(_event_query)]
