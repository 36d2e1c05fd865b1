"""Limits on request bodies: their size, their number of JSON values, pauses while they arrive."""

import asyncio
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.contracts.errors import InvalidRequest, PayloadTooLarge, UnsupportedEncoding
from services.core.web.middleware import header

MAX_BODY_BYTES = 4 << 20
MAX_VALUES = 20_000
"""Of a body with the default limit: each invalid value costs 20 us and more to report."""

COUNTED_BYTES = 64 << 10
"""Smaller bodies cannot have too many values to matter."""

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
        """Wrap ``receive``: it raises `PayloadTooLarge`, `UnsupportedEncoding` and
        `InvalidRequest`."""
        limit = self._limit_of(scope["path"])
        pieces: list[bytes] | None = [] if limit == self._max_bytes else None
        declared, encoding = _declared_bytes(scope), header(scope, b"content-encoding")
        received, complete = 0, False

        async def receive_limited() -> Message:
            nonlocal received, complete
            if complete:  # the next message is the disconnect, whenever it comes
                return await receive()
            if encoding is not None and encoding.strip().lower() not in {"", "identity"}:
                raise UnsupportedEncoding(
                    f"the body has the Content-Encoding {encoding[:50]!r}: send it as it is"
                )
            if declared > limit:
                raise _too_large(limit)
            message = await self._next(receive)
            received += len(message.get("body", b""))
            if received > limit:
                raise _too_large(limit)
            complete = not message.get("more_body", False)
            if pieces is not None:  # a route with a larger limit reads its body by its own rules
                pieces.append(message.get("body", b""))
                if complete and received > COUNTED_BYTES and has_more_values(pieces, MAX_VALUES):
                    reason = f"the body has more than {MAX_VALUES} values"
                    raise InvalidRequest(reason, code="too_many_values")
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


def has_more_values(pieces: Sequence[bytes], most: int) -> bool:
    """Whether a JSON text, in pieces, has more values than ``most``; counted without parsing."""
    plain = b"".join(pieces).replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') <= 2 * most:
        outside_of_strings = b"".join(plain.split(b'"')[::2])
        return sum(map(outside_of_strings.count, (b",", b"[", b"{"))) > most
    return True


def _declared_bytes(scope: Scope) -> int:
    length = header(scope, b"content-length") or ""
    return int(length) if length.isdecimal() else 0


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the request is larger than {limit} bytes")
