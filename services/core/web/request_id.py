"""Request headers, and a request id on every response and in the log line of every failure."""

import logging
import random
import re
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send


def header(scope: Scope, name: bytes) -> str | None:
    """The first header with this lowercase name, or None."""
    for key, value in scope["headers"]:
        if key == name:
            text: str = value.decode("latin-1")
            return text
    return None


logger = logging.getLogger("temper.requests")

HEADER = b"x-request-id"
_ACCEPTED = re.compile(rb"[A-Za-z0-9._-]{1,100}")


class RequestIds:
    """ASGI middleware: a well-formed x-request-id of the client is kept, otherwise one is made.

    The id is passed on in the request, so that the services behind log the same one.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and add the id to its response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope, request_id = with_request_id(scope)
        began = time.perf_counter()

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [*message.get("headers", []), (HEADER, request_id)]
                message = {**message, "headers": headers}
                if message["status"] >= 500:
                    log_failure(scope, message["status"], time.perf_counter() - began, request_id)
            await send(message)

        await self._app(scope, receive, send_marked)


def with_request_id(scope: Scope) -> tuple[Scope, bytes]:
    """The scope with the id among its headers, and the id."""
    others, given = [], b""
    for header in scope["headers"]:
        if header[0] == HEADER:
            given = header[1]
        else:
            others.append(header)
    request_id = given if given and _ACCEPTED.fullmatch(given) else _new_id()
    others.append((HEADER, request_id))
    return {**scope, "headers": others}, request_id


def log_failure(scope: Scope, status: int, seconds: float, request_id: bytes) -> None:
    """Log a request that failed with a server error."""
    place = (scope["method"], scope["path"])
    logger.error("%s %r -> %d in %.3f s [%s]", *place, status, seconds, request_id.decode())


def _new_id() -> bytes:
    # Not a secret, and drawn without a system call.
    return b"req-%024x" % random.getrandbits(96)
