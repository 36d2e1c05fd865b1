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
_OF_A_CONNECTION = frozenset(
    {
        *(b"connection", b"keep-alive", b"upgrade", b"te"),
        *(b"proxy-connection", b"proxy-authorization", b"proxy-authenticate"),
    }
)

Headers = list[tuple[bytes, bytes]]


class HttpPeer:
    """One side of an HTTP connection, in this process's ``role``.

    Methods raise OSError when the stream breaks, and `h11.ProtocolError`.
    """

    def __init__(self, stream: ByteStream, role: type[h11.CLIENT] | type[h11.SERVER]) -> None:
        self.stream = stream
        self._http = h11.Connection(role, max_incomplete_event_size=HEAD_BYTES)

    async def first(self) -> h11.Event:
        """The first event, from a client that may send its head slowly."""
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
    def has_begun(self) -> bool:
        """Whether a response head was sent."""
        return self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}

    def rest(self) -> bytes:
        """Data received after the last event."""
        return self._http.trailing_data[0]

    async def close_gently(self) -> None:
        """Half-close, and let the peer read everything before the connection goes."""
        with contextlib.suppress(OSError):  # includes TimeoutError
            self.stream.end()
            async with asyncio.timeout(_LINGER_SECONDS):
                while await self.stream.receive():
                    pass


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Drop the hop-by-hop headers, and ask for the connection to be closed."""
    headers = list(headers)
    named = {
        option.strip().lower()
        for name, value in headers
        if name == b"connection"
        for option in value.split(b",")
    }
    kept = [(n, v) for n, v in headers if n not in _OF_A_CONNECTION and n not in named]
    return [*kept, (b"connection", b"close")]
