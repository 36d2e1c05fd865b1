"""Byte streams through the proxy, and the limit on their rate."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable

PIECE = 1 << 16

# Linux doubles it. Bounds the kernel memory that a slow program can fill.
_KERNEL_BUFFER = 1 << 18

Spend = Callable[[int], Awaitable[None]]
"""Called with the size of each step; returns when it may proceed."""


class ByteStream:
    """A connected socket, closed by its creator. Methods raise OSError."""

    def __init__(self, connection: socket.socket, spend: Spend) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            connection.setsockopt(socket.SOL_SOCKET, buffer, _KERNEL_BUFFER)
        self._connection = connection
        self.spend = spend

    async def receive(self) -> bytes:
        """The next bytes; empty at the end."""
        data = await asyncio.get_running_loop().sock_recv(self._connection, PIECE)
        await self.spend(len(data))
        return data

    async def send(self, data: bytes) -> None:
        """Send everything, at the pace of the receiver."""
        if data:
            await asyncio.get_running_loop().sock_sendall(self._connection, data)

    def end(self) -> None:
        """Half-close: send no more."""
        self._connection.shutdown(socket.SHUT_WR)


async def relay(one: ByteStream, other: ByteStream) -> None:
    """Relay both directions until both ends are closed or either breaks."""
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_pass(one, other))
            directions.create_task(_pass(other, one))
    except* OSError:
        pass  # both sides notice it themselves


async def _pass(source: ByteStream, target: ByteStream) -> None:
    while data := await source.receive():
        await target.send(data)
    target.end()


_BURST_SECONDS = 0.25


class RateLimit:
    """Allows ``rate`` units per second, with bursts of a quarter of a second's worth."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._due = clock() - _BURST_SECONDS

    def reserve(self, amount: float) -> float:
        """Consume ``amount`` units; return the seconds to wait first."""
        now = self._clock()
        self._due = max(self._due, now - _BURST_SECONDS) + amount / self._rate
        return max(0.0, self._due - now)
