"""What every HTTP relay does: connections to a server, headers that end here, streamed answers.

Bodies are relayed with backpressure and never buffered whole. A server that disconnects before the
end of its answer gets the client's connection aborted, so that a partial answer is never mistaken
for a complete one.

The gateway relays with an ASGI server, an engine's job with one of aiohttp: both write through
`relay_body`, and imports are those of aiohttp's client alone.
"""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, Protocol

import aiohttp

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
"""ASGI's send."""

RawHeaders = list[tuple[bytes, bytes]]

CONNECT_SECONDS = 5.0

_HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"upgrade"),
        *(b"transfer-encoding", b"proxy-authenticate", b"proxy-authorization"),
    }
)
# Credentials for the relay, and headers about its own origin, are not forwarded.
_OWN = frozenset(
    {
        *(b"authorization", b"x-api-key", b"temper-script-key", b"cookie"),
        *(b"host", b"origin", b"referer", b"expect"),
    }
)
# The relay sets these itself.
_SET_HERE = frozenset({b"date", b"server", b"x-request-id", b"set-cookie"})


def upstream_session(
    *,
    idle_seconds: float = 15.0,
    silence_seconds: float | None = None,
    skip_auto_headers: Iterable[str] = (),
) -> aiohttp.ClientSession:
    """Connections to a server, without limits on their number and on the time of an answer.

    ``idle_seconds`` is shorter than the server's keep-alive timeout, so that a reused connection
    is never one that the server is closing. ``silence_seconds`` is the longest wait for data.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=idle_seconds),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(
            total=None, connect=CONNECT_SECONDS, sock_read=silence_seconds
        ),
        auto_decompress=False,
        skip_auto_headers=skip_auto_headers,
    )


def request_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[str, str]]:
    """The headers forwarded to the server."""
    forwarded = _without(headers, _HOP_BY_HOP | _OWN)
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in forwarded]


def response_headers(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers returned to the client."""
    return _without(headers, _HOP_BY_HOP | _SET_HERE)


class Transform(Protocol):
    """Changes the chunks of a body; it is told which one is the last."""

    def __call__(self, chunk: bytes, *, last: bool) -> bytes:
        """Return the bytes to send."""
        ...


def _unchanged(chunk: bytes, *, last: bool) -> bytes:
    del last
    return chunk


class Write(Protocol):
    """Sends a chunk of a body, as the server of this process does it."""

    async def __call__(self, chunk: bytes, *, last: bool) -> None:
        """Return when the client can take more."""
        ...


def to_asgi(send: Send) -> Write:
    """Write the body of an ASGI response, whose head was sent."""

    async def write(chunk: bytes, *, last: bool) -> None:
        await send({"type": "http.response.body", "body": chunk, "more_body": not last})

    return write


async def relay_body(
    answer: aiohttp.ClientResponse,
    write: Write,
    transform: Transform = _unchanged,
) -> None:
    """Write the body of an answer as it arrives, each chunk changed by ``transform``.

    Raises aiohttp's errors, and leaves the response unfinished then, whose connection has to be
    aborted: an ASGI server does so by itself.
    """
    is_complete = False
    while not is_complete:
        chunk = await answer.content.readany()
        is_complete = answer.content.at_eof()
        await write(transform(chunk, last=is_complete), last=is_complete)


def _without(headers: Iterable[tuple[bytes, bytes]], dropped: frozenset[bytes]) -> RawHeaders:
    lowered = [(name.lower(), value) for name, value in headers]
    for name, value in lowered:
        if name == b"connection":  # it names further hop-by-hop headers
            dropped = dropped | {part.strip().lower() for part in value.split(b",")}
        elif name == b"transfer-encoding":  # it overrides any content-length
            dropped = dropped | {b"content-length"}
    return [(name, value) for name, value in lowered if name not in dropped]
