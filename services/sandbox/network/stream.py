"""One end of a connection through the proxy."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

PIECE = 1 << 16

# Linux doubles them. What a program does not take is held by the service's sockets.
_KERNEL_BUFFER = 1 << 18

Spend = Callable[[int], Awaitable[None]]
"""Called at each step with the bytes that came in it; returns when they may go on."""


class Line:
    """A connected socket, which whoever makes this closes. Its methods raise OSError."""

    def __init__(self, connection: socket.socket, spend: Spend) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            connection.setsockopt(socket.SOL_SOCKET, buffer, _KERNEL_BUFFER)
        self._connection = connection
        self.spend = spend

    async def receive(self) -> bytes:
        """The next bytes; none when the other side will send no more."""
        data = await asyncio.get_running_loop().sock_recv(self._connection, PIECE)
        await self.spend(len(data))
        return data

    async def send(self, data: bytes) -> None:
        """Send all of it, as fast as the other side takes it."""
        if data:
            await asyncio.get_running_loop().sock_sendall(self._connection, data)

    def end(self) -> None:
        """Send no more."""
        self._connection.shutdown(socket.SHUT_WR)


async def relay(one: Line, other: Line) -> None:
    """Pass bytes both ways until both sides have ended, or either breaks."""
    try:
        async with asyncio.TaskGroup() as directions:
            directions.create_task(_pass(one, other))
            directions.create_task(_pass(other, one))
    except* OSError:
        pass  # there is nobody to tell but the two sides, and they see it


async def _pass(source: Line, target: Line) -> None:
    while data := await source.receive():
        await target.send(data)
    target.end()
