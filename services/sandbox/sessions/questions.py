"""What a driver is asked about files, and its answers: one after another."""

import asyncio
from collections.abc import Awaitable, Callable

from services.sandbox.guest.frames import Header
from services.sandbox.sessions.ends import NotebookEnded
from services.sandbox.sessions.messages import FileAnswer, ProtocolBroken

ANSWER_SECONDS = 30.0

Answer = tuple[FileAnswer, bytes]


class Questions:
    """Asks by ``tell``; every answer goes to whoever asked for it."""

    def __init__(self, tell: Callable[[Header, bytes], Awaitable[None]]) -> None:
        self._tell = tell
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[Answer] | None = None

    async def ask(self, header: Header, body: bytes) -> Answer:
        """Ask, and wait for the answer; raises `NotebookEnded` and TimeoutError."""
        # The answer comes even when nobody waits for it any more: its turn lasts until then.
        return await asyncio.shield(asyncio.ensure_future(self._ask(header, body)))

    def answered(self, message: FileAnswer, body: bytes) -> None:
        """Hand on an answer; raises `ProtocolBroken` when nobody asked."""
        if self._answer is None or self._answer.done():
            raise ProtocolBroken("it answers what it was not asked")
        self._answer.set_result((message, body))

    def give_up(self) -> None:
        """Nobody will answer any more."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NotebookEnded())

    async def _ask(self, header: Header, body: bytes) -> Answer:
        async with self._turn:
            self._answer = asyncio.get_running_loop().create_future()
            try:
                await self._tell(header, body)
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._answer
            finally:
                self._answer = None
