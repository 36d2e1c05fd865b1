"""The live stream of a job's events, as server-sent events.

The stream begins with the first event, or behind the client's ``Last-Event-ID``, sends a comment
when there is nothing to say, and ends with ``[DONE]`` once the job is final.
"""

import asyncio
import time
from collections.abc import AsyncIterator

from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.types import Receive, Scope, Send

from services.api.context import GatewayContext
from services.api.jobs.events import event_view
from services.contracts.errors import Unavailable
from services.contracts.jobs import Event
from services.core.jobs.events import events_after
from services.core.jobs.store import get_job
from services.core.web.errors import error_answer

POLL_SECONDS = 0.3
PING_SECONDS = 15.0
BATCH = 500
# Neither caches nor proxies may hold back what has been sent.
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(EventSourceResponse):
    """A response that holds one of the gateway's places for streams while it runs."""

    def __init__(self, gateway: GatewayContext, job_id: str, behind: int) -> None:
        super().__init__(follow_events(gateway, job_id, behind), headers=HEADERS)
        self._places = gateway.stream_places

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream, or answer 503 when all places are taken."""
        if not self._places.acquire(blocking=False):
            refusal = Unavailable("too many event streams are open", code="too_many_streams")
            await error_answer(refusal)(scope, receive, send)
            return
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._places.release()


async def follow_events(gateway: GatewayContext, job_id: str, behind: int) -> AsyncIterator[bytes]:
    """The frames of a job's events with numbers above ``behind``, until no more can follow."""
    said = time.monotonic()
    while True:
        events, behind, final = await asyncio.to_thread(_read, gateway, job_id, behind)
        for event in events:
            yield format_sse_event(data_str=event.model_dump_json(), id=event.id)
            said = time.monotonic()
        if final:
            yield format_sse_event(data_str="[DONE]")
            return
        if time.monotonic() - said > PING_SECONDS:
            yield KEEPALIVE_COMMENT
            said = time.monotonic()
        if not events:
            await asyncio.sleep(POLL_SECONDS)


def _read(gateway: GatewayContext, job_id: str, behind: int) -> tuple[list[Event], int, bool]:
    """The next events, the number of the last one, and whether no other can follow."""
    with gateway.database.read() as session:
        # The status is read first: events committed with a final status are then seen too.
        final = get_job(session, job_id).status.is_final
        rows = events_after(session, job_id, behind, BATCH)
    events = [event_view(row) for row in rows]
    return events, rows[-1].number if rows else behind, final and len(rows) < BATCH
