"""HTTP/1.1 over a stream, for either side of a connection."""

import asyncio
import contextlib
import re
from collections.abc import Iterable

import h11

from services.sandbox.network.stream import ByteStream

HEAD_BYTES = 32 << 10
HEAD_LINES = 200

_HEAD_END = re.compile(rb"\n\r?\n")
_LINGER_SECONDS = 5.0
_HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"upgrade", b"te"),
        *(b"proxy-connection", b"proxy-authorization", b"proxy-authenticate"),
    }
)

Headers = list[tuple[bytes, bytes]]


class HttpPeer:
    """One side of an HTTP connection, where this process has the given ``role``.

    Methods raise OSError when the stream breaks, and `h11.ProtocolError`.
    """

    def __init__(self, stream: ByteStream, role: type[h11.CLIENT] | type[h11.SERVER]) -> None:
        self.stream = stream
        self._http = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES)

    async def first(self) -> h11.Event:
        """The first event; the client may send its head slowly."""
        data = b""
        while _HEAD_END.search(data) is None and len(data) <= HEAD_BYTES:
            piece = await self.stream.receive()
            if not piece:
                break
            data += piece
        head = _HEAD_END.split(data, maxsplit=1)[0]
        if len(head) > HEAD_BYTES or head.count(b"\n") > HEAD_LINES:
            raise h11.RemoteProtocolError("the head is too large", error_status_hint=431)
        self._http.receive_data(data)
        return await self.next()

    async def next(self) -> h11.Event:
        """The next event."""
        while not isinstance(event := self._http.next_event(), h11.Event):
            if event is h11.PAUSED:
                raise h11.RemoteProtocolError("unexpected data after the message")
            self._http.receive_data(await self.stream.receive())
        return event

    async def send(self, event: h11.Event) -> None:
        """Send an event."""
        await self.stream.spend(0)
        await self.stream.send(self._http.send(event) or b"")

    @property
    def has_started(self) -> bool:
        """Whether a response head was sent."""
        return self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}

    def rest(self) -> bytes:
        """Data received after the last event."""
        return self._http.trailing_data[0]

    async def close_gently(self) -> None:
        """Half-close, and let the peer read everything before the connection closes."""
        with contextlib.suppress(OSError):  # includes TimeoutError
            self.stream.end()
            async with asyncio.timeout(_LINGER_SECONDS):
                while await self.stream.receive():
                    pass


def forwarded(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The end-to-end headers, plus a request to close the connection."""
    headers = list(headers)
    named = {
        option.strip().lower()
        for name, value in headers
        if name == b"connection"
        for option in value.split(b",")
    }
    end_to_end = [(n, v) for n, v in headers if n not in _HOP_BY_HOP and n not in named]
    return [*end_to_end, (b"connection", b"close")]
