"""The service's end of the channel to a notebook's driver."""

import asyncio
import socket
from contextlib import suppress
from typing import Self

from services.sandbox.guest.frames import LARGEST_HEADER, PREFIX, ChannelClosed, Header, encode
from services.sandbox.sessions.messages import Message, ProtocolBroken, read_message

_BUFFERED = 1 << 20


class DriverChannel:
    """Messages to and from a driver. ``most_bytes`` is the largest body that is taken from it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most_bytes: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._most_bytes = most_bytes

    @classmethod
    async def over(cls, own_end: socket.socket, most_bytes: int) -> Self:
        """The channel over a connected socket, which it closes in the end."""
        return cls(*await asyncio.open_connection(sock=own_end, limit=_BUFFERED), most_bytes)

    async def receive(self) -> tuple[Message, bytes]:
        """Wait for a message; raises `ChannelClosed` and `ProtocolBroken`."""
        try:
            prefix = await self._reader.readexactly(PREFIX.size)
            header_length, body_length = PREFIX.unpack(prefix)
            if header_length > LARGEST_HEADER or body_length > self._most_bytes:
                raise ProtocolBroken("a message is too large")
            message = read_message(await self._reader.readexactly(header_length))
            return message, await self._reader.readexactly(body_length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise ChannelClosed from None

    async def send(self, header: Header, body: bytes = b"") -> None:
        """Send a message; raises `ChannelClosed`. Only one at a time."""
        self._writer.write(encode(header, body_length=len(body)) + body)
        try:
            await self._writer.drain()
        except ConnectionError:
            raise ChannelClosed from None

    async def close(self) -> None:
        """Hang up."""
        self._writer.transport.abort()
        with suppress(ConnectionError):  # the other end did so first
            await self._writer.wait_closed()
