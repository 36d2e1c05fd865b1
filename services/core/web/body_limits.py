"""How much a request may send, and how long it may pause."""

import asyncio
from collections.abc import Mapping
from fnmatch import fnmatchcase

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.errors import InvalidRequest, PayloadTooLarge
from services.core.web.request_id import header

MAX_BODY_BYTES = 4 << 20
STALL_SECONDS = 60.0


class BodyLimits:
    """ASGI middleware that ends the reading of a body that is too large or stops coming.

    ``larger`` holds the limits, in bytes, of the paths that may receive more than the rest; a
    ``*`` in a path stands for any text.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        larger: Mapping[str, int],
        max_bytes: int = MAX_BODY_BYTES,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._app = app
        self._bounds = BodyBounds(larger, max_bytes, stall_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; its reader gets the error."""
        if scope["type"] == "http":
            receive = self._bounds.limited(scope, receive)
        await self._app(scope, receive, send)


class BodyBounds:
    """How many bytes the body of a request may have by its path, and how long it may pause."""

    def __init__(
        self,
        larger: Mapping[str, int],
        max_bytes: int = MAX_BODY_BYTES,
        stall_seconds: float = STALL_SECONDS,
    ) -> None:
        self._larger = larger
        self._max_bytes = max_bytes
        self._stall_seconds = stall_seconds

    def limited(self, scope: Scope, receive: Receive) -> Receive:
        """What the body of the request is to be read with; it raises when it goes too far."""
        limit = self._limit_of(scope["path"])
        declared = _declared_bytes(scope)
        received, complete = 0, False

        async def receive_limited() -> Message:
            nonlocal received, complete
            if complete:  # what comes now is the end of the connection, whenever it is
                return await receive()
            if declared > limit:
                raise _too_large(limit)
            message = await self._next(receive)
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(limit)
            complete = not message.get("more_body", False)
            return message

        return receive_limited

    def _limit_of(self, path: str) -> int:
        if path in self._larger:
            return self._larger[path]
        patterns = (limit for pattern, limit in self._larger.items() if fnmatchcase(path, pattern))
        return next(patterns, self._max_bytes)

    async def _next(self, receive: Receive) -> Message:
        try:
            async with asyncio.timeout(self._stall_seconds):
                return await receive()
        except TimeoutError:
            message = f"no more of the body came within {self._stall_seconds:.0f} s"
            raise InvalidRequest(message, code="body_timeout") from None


def _declared_bytes(scope: Scope) -> int:
    length = header(scope, b"content-length") or ""
    return int(length) if length.isdecimal() else 0


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the request is larger than {limit} bytes")
