"""How much the requests and answers of all clients together may hold in memory."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.errors import GatewayTimeout


class HeldBytes:
    """ASGI middleware that refuses to read more when what is held has reached ``limit``.

    A request counts from its first byte until its answer is sent, and so does the answer.
    """

    def __init__(self, app: ASGIApp, *, limit: int) -> None:
        self._app = app
        self._limit = limit
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; its reader gets the error."""
        mine = 0

        async def receive_counted() -> Message:
            nonlocal mine
            message = await receive()
            count = len(message.get("body", b""))
            if count and self._held + count > self._limit:
                raise GatewayTimeout("the service holds all the requests it can", code="too_busy")
            self._held += count
            mine += count
            return message

        async def send_counted(message: Message) -> None:
            count = len(message.get("body", b""))
            self._held += count
            try:
                await send(message)
            finally:
                self._held -= count

        try:
            await self._app(scope, receive_counted, send_counted)
        finally:
            self._held -= mine
