"""The parameters that ask for events, the same for every kind of job."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Query

from services.api.context import GatewayContext
from services.api.jobs.events import event_number, list_events
from services.api.jobs.stream import EventStream
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import InvalidRequest, NotFound, Unavailable
from services.contracts.jobs import Event
from services.core.jobs.store import get_job
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit

EventsAnswer = Page[Event] | EventStream

_STREAM_EXAMPLE = """\
id: ftevent-ftjob-0123456789abcdef01234567-1
data: {"id": "ftevent-ftjob-0123456789abcdef01234567-1", "message": "Job created", ...}

: ping

data: [DONE]
"""
EVENTS_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _STREAM_EXAMPLE}}
    },
    **documented_errors(InvalidRequest, NotFound, Unavailable),
}
"""What a route of events declares to OpenAPI."""


@dataclass(frozen=True)
class EventQuery:
    """A page of events, or their stream."""

    after: str | None
    limit: int
    stream: bool
    last_event_id: str | None

    def answer(self, gateway: GatewayContext, job_id: str, kind: str | None = None) -> EventsAnswer:
        """Answer for one job; jobs of another ``kind`` do not exist."""
        with gateway.database.read() as session:
            get_job(session, job_id, kind)
            if not self.stream:
                return list_events(session, job_id, after=self.after, limit=self.limit)
        last = self.last_event_id or self.after
        return EventStream(gateway, job_id, event_number(job_id, last) if last else 0)


async def _event_query(
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
    stream: Annotated[bool, Query(description="Follow live, as server-sent events.")] = False,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID", max_length=300)] = None,
) -> EventQuery:
    return EventQuery(after, limit, stream, last_event_id)


Events = Annotated[EventQuery, Depends(_event_query)]
