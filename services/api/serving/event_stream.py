"""Server-sent events of an answer that the gateway writes itself."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from services.core.web.disconnect import ClientGone, while_connected
from services.dialects.exchange import Event


class EventStream(Response):
    """Sends events as they come. When the client disconnects, the events are closed, and with them
    what they wait for."""

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[Event, None], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-cache", **(headers or {})})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        del scope
        with suppress(ClientGone):
            await while_connected(receive, self._stream(send))

    async def _stream(self, send: Send) -> None:
        async with aclosing(self._events) as events:
            head = {"status": self.status_code, "headers": self.raw_headers}
            await send({"type": "http.response.start", **head})
            async for event in events:
                body = written(event)
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def written(event: Event) -> bytes:
    """An event on the wire."""
    name, data = event
    head = f"event: {name}\n" if name else ""
    text = json.dumps(data, separators=(",", ":"))
    return f"{head}data: {text}\n\n".encode()
