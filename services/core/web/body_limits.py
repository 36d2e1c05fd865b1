"""Limits on the size of request bodies, and on pauses while they arrive."""

import asyncio
from collections.abc import Mapping
from fnmatch import fnmatchcase

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.errors import InvalidRequest, PayloadTooLarge
from services.core.web.request_id import header

MAX_BODY_BYTES = 4 << 20
STALL_SECONDS = 60.0


class BodyLimits:
    """ASGI middleware that aborts the reading of bodies that are too large or stall.

    ``larger`` maps paths to limits in bytes above the default; ``*`` in a path matches any text.
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
        """Pass the request on with a limited ``receive``, which raises the error."""
        if scope["type"] == "http":
            receive = self._bounds.limited(scope, receive)
        await self._app(scope, receive, send)


class BodyBounds:
    """The maximum body size by path, and the longest pause."""

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
        """Wrap ``receive``: it raises `PayloadTooLarge` and `InvalidRequest`."""
        limit = self._limit_of(scope["path"])
        declared = _declared_bytes(scope)
        received, complete = 0, False

        async def receive_limited() -> Message:
            nonlocal received, complete
            if complete:  # the next message is the disconnect, whenever it comes
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
            message = f"no data of the body arrived within {self._stall_seconds:.0f} s"
            raise InvalidRequest(message, code="body_timeout") from None


def _declared_bytes(scope: Scope) -> int:
    length = header(scope, b"content-length") or ""
    return int(length) if length.isdecimal() else 0


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the request is larger than {limit} bytes")
