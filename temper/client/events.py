"""A job's events as a stream that survives broken connections."""

import time
from collections.abc import Generator, Iterator

import httpx
from httpx_sse import EventSource, SSEError
from pydantic import ValidationError

from services.contracts.jobs import Event
from temper.client.errors import ApiError, UnexpectedAnswer, Unreachable
from temper.client.transport import RETRIED_STATUSES, Transport, pause_before

DONE = "[DONE]"
SILENCE_LIMIT = httpx.Timeout(60.0, connect=5.0)
"""The gateway pings more often; a longer silence means a dead connection."""


class EventStream:
    """The events of one job, after ``last_id`` until the job ends.

    Reconnects with ``Last-Event-ID``, so that no event is lost or repeated. Raises `Unreachable`
    after ``give_up_after`` seconds without a connection.
    """

    def __init__(
        self, transport: Transport, path: str, last_id: str | None, give_up_after: float
    ) -> None:
        self.transport = transport
        self.path = path
        self.last_id = last_id
        self.give_up_after = give_up_after
        self._failures = 0
        self._last_contact = time.monotonic()

    def __iter__(self) -> Iterator[Event]:
        while True:
            try:
                if (yield from self._one_connection()):
                    return
                self._pause(Unreachable(f"{self.path} ended before its job did"))
            except Unreachable as error:
                self._pause(error)
            except ApiError as error:
                if error.status not in RETRIED_STATUSES:
                    raise
                self._pause(error)

    def _one_connection(self) -> Generator[Event, None, bool]:
        """Yield events until the connection ends; return whether the stream was complete."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.last_id is not None:
            headers["Last-Event-ID"] = self.last_id
        with self.transport.stream(
            self.path, {"stream": "true"}, headers, SILENCE_LIMIT
        ) as response:
            self._last_contact = time.monotonic()
            try:
                for message in EventSource(response).iter_sse():
                    self._last_contact = time.monotonic()
                    self._failures = 0
                    if message.data == DONE:
                        return True
                    if not message.data or (message.id and message.id == self.last_id):
                        continue
                    event = Event.model_validate_json(message.data)
                    self.last_id = message.id or self.last_id
                    yield event
            except SSEError as error:
                raise UnexpectedAnswer(f"{self.path} is not an event stream: {error}") from error
            except ValidationError as error:
                raise UnexpectedAnswer(f"{self.path} sent an invalid event") from error
        return False

    def _pause(self, error: Exception) -> None:
        if time.monotonic() - self._last_contact > self.give_up_after:
            raise error
        self._failures += 1
        time.sleep(pause_before(self._failures))
