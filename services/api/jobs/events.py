"""Pages of a job's events."""

import re
from typing import Literal, cast

from sqlalchemy.orm import Session

from services.contracts.base import Page
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import Event
from services.core.db.tables import EventRow
from services.core.jobs.events import events_before
from services.core.web.paging import page_of

_EVENT_ID = re.compile(r"ftevent-(?P<job>[a-z]+-[0-9a-f]{24})-(?P<number>[0-9]{1,9})")


def list_events(session: Session, job_id: str, *, after: str | None, limit: int) -> Page[Event]:
    """A page of events, newest first."""
    number = event_number(job_id, after) if after is not None else None
    rows = events_before(session, job_id, number, limit + 1)
    return page_of([event_view(row) for row in rows[:limit]], len(rows) > limit)


def event_view(row: EventRow) -> Event:
    """An event as the wire shows it."""
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
        raise InvalidRequest(f"{event_id[:80]!r} is no event of job {job_id}", param="after")
    return int(match["number"])
