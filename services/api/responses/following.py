"""The stored events of a background response, and those to come."""

import json
from collections.abc import AsyncGenerator

from starlette.concurrency import run_in_threadpool

from services.api.context import GatewayContext
from services.api.responses import store
from services.contracts.errors import NotFound
from services.dialects.exchange import Event

LOOK_SECONDS = 1.0
"""Another gateway may play the response."""


async def follow(
    gateway: GatewayContext, principal: str, identity: str, after: int
) -> AsyncGenerator[Event, None]:
    """The events after a number, until the response has ended or is deleted."""
    if not gateway.stream_slots.acquire(blocking=False):
        message = "too many event streams are open"
        yield "error", {"type": "error", "code": "too_many_requests", "message": message}
        return
    try:
        while True:
            lines, has_ended = await run_in_threadpool(_read, gateway, principal, identity, after)
            for line in lines:
                data = json.loads(line)
                after = data["sequence_number"]
                yield data["type"], data
            if has_ended:
                return
            await gateway.responses.wait(identity, LOOK_SECONDS)
    finally:
        gateway.stream_slots.release()


def _read(
    gateway: GatewayContext, principal: str, identity: str, after: int
) -> tuple[list[str], bool]:
    """The events after a number; the end is read first, as no event follows it."""
    with gateway.database.read() as session:
        try:
            row = store.find(session, principal, identity)
        except NotFound:
            return [], True
        has_ended = row.status not in store.UNFINISHED
        return store.events_after(session, identity, after), has_ended
