"""A bound on the bytes of requests and responses in memory."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.errors import GatewayTimeout
from services.core.web.errors import error_answer

PIECE_BYTES = 1 << 18
BODY_SECONDS = 60.0
"""A request whose body makes no progress for longer is rejected."""


class InFlightBytes:
    """ASGI middleware that bounds the bytes of all requests and responses in memory by ``limit``.

    A request counts from its first byte until its response is sent; a response counts until the
    client has read it. What exceeds the limit becomes `GatewayTimeout`.
    """

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._in_flight = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; reading its body raises `GatewayTimeout` at the limit."""
        exchange = _Exchange(self, receive, send)
        try:
            await self._app(scope, exchange.receive, exchange.send)
            if exchange.refusal is not None:
                await error_answer(exchange.refusal)(scope, receive, send)
        finally:
            self._in_flight -= exchange.held

    def reserve(self, count: int) -> None:
        """Count bytes; raises `GatewayTimeout` if they exceed the limit."""
        if count and self._in_flight + count > self._limit:
            raise GatewayTimeout(
                "requests and responses in memory have reached the limit", code="too_busy"
            )
        self._in_flight += count

    def add(self, count: int) -> None:
        """Count bytes that are already in memory."""
        self._in_flight += count

    def release(self, count: int) -> None:
        """Stop counting bytes."""
        self._in_flight -= count


class _Exchange:
    """One request and its response: ``held`` bytes count until its end.

    ``refusal`` is set if the response does not fit; the application's is dropped then.
    """

    def __init__(self, budget: InFlightBytes, receive: Receive, send: Send) -> None:
        self.held = 0
        self.refusal: GatewayTimeout | None = None
        self._budget = budget
        self._receive = receive
        self._send = send
        self._body_is_complete = False
        self._length: int | None = None

    async def receive(self) -> Message:
        timeout = None if self._body_is_complete else BODY_SECONDS
        try:
            async with asyncio.timeout(timeout):
                message = await self._receive()
        except TimeoutError:
            raise GatewayTimeout("the request's body has stalled", code="body_stalled") from None
        self._body_is_complete = not message.get("more_body", False)
        self._hold(len(message.get("body", b"")))
        return message

    async def send(self, message: Message) -> None:
        if self.refusal is not None:
            return
        if message["type"] == "http.response.start":
            self._length = _content_length(message)
            try:
                self._hold(self._length or 0)
            except GatewayTimeout as refusal:
                self.refusal = refusal
                return
            await self._send(message)
        else:
            await self._send_body(message, message.get("body", b""))

    async def _send_body(self, message: Message, body: bytes) -> None:
        """Send at the client's pace, so that the server buffers no more than a piece."""
        unannounced = len(body) if self._length is None else 0
        self._budget.add(unannounced)
        try:
            for at in range(0, max(1, len(body)), PIECE_BYTES):
                more = message.get("more_body", False) or at + PIECE_BYTES < len(body)
                piece = body[at : at + PIECE_BYTES]
                await self._send({**message, "body": piece, "more_body": more})
        finally:
            self._budget.release(unannounced)

    def _hold(self, count: int) -> None:
        self._budget.reserve(count)
        self.held += count


def _content_length(start: Message) -> int | None:
    length = dict(start.get("headers", ())).get(b"content-length")
    return None if length is None else int(length)
