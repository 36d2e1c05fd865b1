"""The service's end of the channel of a slot or a zygote, without blocking the event loop."""

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import Iterable, Sequence

from services.sandbox.descriptors import resolve
from services.sandbox.guest.frames import (
    CANCEL,
    LARGEST_HEADER,
    MOST_DESCRIPTORS,
    PREFIX,
    ChannelClosed,
    Header,
    encode,
)

_PIECE = 1 << 16


class Channel:
    """Messages with one process. Only one task may receive, and one send, at a time."""

    def __init__(self, own_end: socket.socket) -> None:
        own_end.setblocking(False)
        self._socket = own_end
        self._received = bytearray()
        self._descriptors: list[int] = []
        self._waiting: asyncio.Future[None] | None = None

    async def send(
        self,
        header: Header,
        bodies: Iterable[bytes] = (),
        descriptors: Sequence[int] = (),
    ) -> None:
        """Send a message; raises `ChannelClosed`. The other end closes nothing of ours."""
        loop = asyncio.get_running_loop()
        bodies = list(bodies)
        length = sum(map(len, bodies))
        data = encode(header, body_length=length)
        if length <= _PIECE:  # most are: one call, and one wake-up of the receiver
            data, bodies = b"".join((data, *bodies)), []
        try:
            sent = socket.send_fds(self._socket, [data], descriptors) if descriptors else 0
            if sent < len(data):
                await loop.sock_sendall(self._socket, memoryview(data)[sent:])
            for body in bodies:
                await loop.sock_sendall(self._socket, body)
        except (BrokenPipeError, ConnectionResetError):
            raise ChannelClosed from None

    async def send_cancel(self) -> None:
        """End the run that is going on, if one is."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            await asyncio.get_running_loop().sock_sendall(self._socket, CANCEL)

    async def receive(self) -> tuple[Header, bytes]:
        """Wait for a message; raises `ChannelClosed`."""
        header_length, body_length = PREFIX.unpack(await self._take(PREFIX.size))
        if header_length > LARGEST_HEADER:
            raise ChannelClosed
        header: Header = json.loads(await self._take(header_length))
        return header, await self._take(body_length)

    def take_descriptor(self) -> int:
        """A descriptor that came with a message."""
        if not self._descriptors:
            raise ChannelClosed
        return self._descriptors.pop(0)

    def close(self) -> None:
        """Hang up; who waits for a message gets `ChannelClosed`.

        The end of the other process alone does not tell: a fork of it may still hold its end.
        """
        if self._waiting is not None:
            self._waiting.get_loop().remove_reader(self._socket)
            if not self._waiting.done():
                self._waiting.set_exception(ChannelClosed())
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors.clear()
        self._socket.close()

    async def _take(self, length: int) -> bytes:
        while len(self._received) < length:
            self._received += await self._next()
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken

    async def _next(self) -> bytes:
        while True:
            if self._socket.fileno() < 0:
                raise ChannelClosed
            try:
                data, descriptors, _, _ = socket.recv_fds(self._socket, _PIECE, MOST_DESCRIPTORS)
            except BlockingIOError:
                await self._wait_for_more()
                continue
            except ConnectionResetError:
                raise ChannelClosed from None
            self._descriptors += descriptors
            if not data:
                raise ChannelClosed
            return data

    async def _wait_for_more(self) -> None:
        loop = asyncio.get_running_loop()
        waiting = self._waiting = loop.create_future()
        loop.add_reader(self._socket, resolve, waiting)
        try:
            await waiting
        finally:
            self._waiting = None
            if self._socket.fileno() >= 0:  # otherwise `close` has done it
                loop.remove_reader(self._socket)
