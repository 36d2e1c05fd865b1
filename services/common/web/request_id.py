"""A request id on every response and in the log line of every failure."""

import logging
import re
import secrets
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

logger = logging.getLogger("temper.requests")

HEADER = b"x-request-id"
_ACCEPTED = re.compile(rb"[A-Za-z0-9._-]{1,100}")


class RequestIds:
    """ASGI middleware: a client's own x-request-id is kept when it is well-formed.

    The request carries the id on, so that a service which it is passed to logs the same one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and mark its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(HEADER, b"")
        request_id = (
            given if _ACCEPTED.fullmatch(given) else f"req-{secrets.token_hex(12)}".encode()
        )
        others = [header for header in scope["headers"] if header[0] != HEADER]
        scope = {**scope, "headers": [*others, (HEADER, request_id)]}
        began = time.perf_counter()

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), (HEADER, request_id)]
                message = {**message, "headers": headers}
                if message["status"] >= 500:
                    logger.error(
                        "%s %r -> %d in %.3f s [%s]",
                        scope["method"],
                        scope["path"],
                        message["status"],
                        time.perf_counter() - began,
                        request_id.decode(),
                    )
            await send(message)

        await self._app(scope, receive, send_marked)
