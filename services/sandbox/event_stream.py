"""Server-sent events: the response of a route that reports progress while it works."""

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi import Response
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from services.contracts.errors import TemperError
from services.core.web.disconnect import ClientGone, ServiceEnding, while_connected
from services.core.web.errors import error_answer

PING_SECONDS = 15.0
# Neither caches nor proxies may buffer events.
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def described_events(meaning: str, *names: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI declaration of a route that responds with such a stream."""
    fields = {"event": {"enum": list(names)}, "data": {"type": "string"}}
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {200: {"description": meaning, "content": {"text/event-stream": {"schema": schema}}}}


class Events:
    """Events buffered until they are sent; `begin` means that the work was admitted."""

    def __init__(self) -> None:
        self._available = asyncio.Event()
        self._frames = bytearray()

    def begin(self) -> None:
        """Start the stream: from now on a failure can no longer become an error response."""
        self.wake()

    def emit(self, name: str, data: BaseModel) -> None:
        """Add an event."""
        self._frames += _frame(name, data)
        self.wake()

    def wake(self) -> None:
        """Wake the sender."""
        self._available.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait at most ``seconds`` for something to send; return whether there is something."""
        try:
            async with asyncio.timeout(seconds):
                await self._available.wait()
        except TimeoutError:
            return False
        self._available.clear()
        return True

    def finish(self) -> None:
        """No more events will come; the next `drain` returns the remainder."""

    def drain(self) -> bytes:
        """Remove and return the buffered events."""
        frames = bytes(self._frames)
        self._frames.clear()
        return frames


EventsT = TypeVar("EventsT", bound=Events)


class WorkEventStream(Response):
    """Runs ``work`` and streams its events; the last event, ``result``, is its return value.

    A failure before the stream begins is an ordinary error response. The work is cancelled when the
    client disconnects.
    """

    media_type = "text/event-stream"

    def __init__(
        self, work: Callable[[EventsT], Coroutine[Any, Any, BaseModel]], events: EventsT
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._work = functools.partial(work, events)
        self._events = events
        self._has_begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the work and stream its events."""
        with contextlib.suppress(ClientGone):
            try:
                await while_connected(receive, self._serve(scope, receive, send))
            except ServiceEnding as ending:
                if not self._has_begun:
                    await error_answer(ending)(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        working = asyncio.ensure_future(self._work())
        working.add_done_callback(lambda _: self._events.wake())
        try:
            await self._events.wait()
            if working.done() and isinstance(refusal := working.exception(), TemperError):
                await error_answer(refusal)(scope, receive, send)
            else:
                await self._send_events(working, send)
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait((working,))

    async def _send_events(self, working: "asyncio.Future[BaseModel]", send: Send) -> None:
        headers = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        self._has_begun = True
        await send(headers)
        is_over = False
        while not is_over:
            is_over = working.done()
            if is_over:
                self._events.finish()
            frames = self._events.drain()
            if is_over:
                frames += _frame("result", working.result())
            if frames:
                await _send_part(send, frames)
            elif not await self._events.wait(PING_SECONDS):
                await _send_part(send, KEEPALIVE_COMMENT)
        await send({"type": "http.response.body", "body": b""})


def _frame(name: str, data: BaseModel) -> bytes:
    return format_sse_event(event=name, data_str=data.model_dump_json())


async def _send_part(send: Send, frames: bytes) -> None:
    await send({"type": "http.response.body", "body": frames, "more_body": True})
