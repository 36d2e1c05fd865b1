"""Notebooks with a scripted driver, which may violate the protocol."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from typing import Any, cast

from services.sandbox.execution import Execution, ExitReason, Limits, Outcome, PythonFile
from services.sandbox.guest.frames import PREFIX, encode
from services.sandbox.pool.pool import Pool
from services.sandbox.sessions.notebook import Notebook
from services.sandbox.sessions.notebooks import start_notebook

MAX_BYTES = 1 << 20
ROOM = 10_000
EXECUTION = Execution(PythonFile("notebook"), Limits(60.0, 64 << 20, 1024))


class ScriptedDriver:
    """The other end of a notebook's channel, and the process that the service thinks it is."""

    def __init__(self) -> None:
        self.channel, self._end = socket.socketpair()
        self.channel.setblocking(False)
        self._end.setblocking(False)
        self.memory_kills = 0
        self.closed = False
        self.outcome = Outcome(ExitReason.EXITED, -9, b"", b"", False, False, 1.0, 0.5, 1 << 20, {})

    async def open_session(self, _execution: Execution) -> "ScriptedDriver":
        return self

    async def close(self) -> Outcome:
        self.closed = True
        self._end.close()
        return self.outcome

    async def tell(self, header: dict[str, Any], body: bytes = b"") -> None:
        await self.write(encode(header, body_length=len(body)) + body)

    async def write(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._end, data)

    async def heard(self) -> tuple[dict[str, Any], bytes]:
        """The next request of the service."""
        async with asyncio.timeout(20):
            header_length, body_length = PREFIX.unpack(await self._take(PREFIX.size))
            header = json.loads(await self._take(header_length))
            return header, await self._take(body_length)

    def hang_up(self) -> None:
        self._end.close()

    async def _take(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            piece = await asyncio.get_running_loop().sock_recv(self._end, length - len(data))
            assert piece, "the service hung up"
            data += piece
        return data


async def start(driver: ScriptedDriver) -> Notebook:
    """A notebook of this driver."""
    return await start_notebook(cast(Pool, driver), EXECUTION, MAX_BYTES)


@contextlib.asynccontextmanager
async def scripted_notebook() -> AsyncIterator[tuple[Notebook, ScriptedDriver]]:
    """A notebook with a ready kernel, and its driver."""
    driver = ScriptedDriver()
    await driver.tell({"type": "ready"})
    notebook = await start(driver)
    try:
        yield notebook, driver
    finally:
        await notebook.end("the test is over")
        assert driver.closed
