"""A notebook: a driver and its kernel in a sandbox."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from services.sandbox.execution import Ending, Outcome, SandboxFailure
from services.sandbox.guest.frames import ChannelClosed, Header
from services.sandbox.pool.sessions import SessionProcess
from services.sandbox.sessions.driver import (
    Died,
    Done,
    DriverChannel,
    FileAnswer,
    Message,
    Printed,
    ProtocolBroken,
    Raised,
    Ready,
    Shown,
)
from services.sandbox.sessions.outputs import CellOutputs

logger = logging.getLogger(__name__)

START_SECONDS = 30.0
SEND_SECONDS = 30.0
DISMISSAL_SECONDS = 1.0
MOST_RESTARTS = 1000
ANSWER_SECONDS = 30.0

Answer = tuple[FileAnswer, bytes]


@dataclass(frozen=True)
class Death:
    """The end of a kernel. ``return_code`` is -N after death by signal N."""

    return_code: int
    out_of_memory: bool


@dataclass(frozen=True)
class CellEnd:
    """How a cell came to its end: by itself, or with its kernel, or else with the notebook.

    ``begun`` is false for one that was not run, as the kernel had died before.
    """

    done: Done | None = None
    death: Death | None = None
    begun: bool = True
    interrupted: bool = False


class NotEnoughMemory(SandboxFailure):
    """No kernel can be started in the memory that was given."""


class NotebookEnded(Exception):
    """The notebook has ended, or ended while it was asked something."""


class Notebook:
    """Runs one cell at a time.

    Once nothing of it is left, ``ended_at`` is that time of `time.monotonic`, ``end_reason`` says
    why, and ``outcome`` what came of its processes, if that is known.
    """

    def __init__(self, process: SessionProcess, channel: DriverChannel) -> None:
        self.restarts = 0
        self.last_death: Death | None = None
        self.ended_at: float | None = None
        self.end_reason = ""
        self.outcome: Outcome | None = None
        self.ran_out_of_memory = False
        self._process = process
        self._channel = channel
        self._ready = asyncio.Event()
        self._outputs: CellOutputs | None = None
        self._cell: asyncio.Future[CellEnd] | None = None
        self._interrupted = self._restarting = False
        self._is_told = True  # of the last death
        self._memory_kills = 0
        self._questions = Questions(self._tell)
        self._ending: asyncio.Task[None] | None = None
        self._listening = asyncio.create_task(self._listen())

    async def is_ready(self) -> bool:
        """Wait until a kernel waits for cells; false when there will be none any more."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            await self.end(f"its kernel was not ready within {START_SECONDS:.0f} s")
        return self._ending is None

    async def execute(self, code: str, outputs: CellOutputs) -> CellEnd:
        """Run a cell to its end, however long it takes."""
        if not await self.is_ready():
            return CellEnd()
        if not self._is_told:
            self._is_told = True
            return CellEnd(death=self.last_death, begun=False)
        cell: asyncio.Future[CellEnd] = asyncio.get_running_loop().create_future()
        self._cell, self._outputs, self._interrupted = cell, outputs, False
        try:
            await self._tell({"type": "execute", "room": dict(vars(outputs.room))}, code.encode())
            return await cell
        except NotebookEnded:
            return CellEnd()
        finally:
            self._cell = self._outputs = None

    async def interrupt(self) -> None:
        """Have the running cell, if there is one, raise KeyboardInterrupt."""
        if self._cell is not None:
            self._interrupted = True
            with suppress(NotebookEnded):  # there is nothing left to be stopped
                await self._tell({"type": "interrupt"})

    async def restart(self) -> None:
        """Replace the kernel, whatever it is doing; one that is being started is new already."""
        if self._ready.is_set():
            self._ready.clear()
            self._interrupted = self._restarting = self._is_told = True
            with suppress(NotebookEnded):
                await self._tell({"type": "restart"})

    async def ask(self, header: Header, body: bytes = b"") -> Answer:
        """Ask about files; raises `NotebookEnded`."""
        try:
            return await self._questions.ask(header, body)
        except TimeoutError:
            await self.end("it did not answer in time")
            raise NotebookEnded from None

    async def end(self, reason: str) -> None:
        """End it and all that it runs, for this reason; the first one counts."""
        await asyncio.shield(self._end_soon(reason))

    async def _tell(self, header: Header, body: bytes = b"") -> None:
        if self._ending is not None:
            raise NotebookEnded
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._channel.send(header, body)
        except TimeoutError:
            await self.end("it takes no messages")
            raise NotebookEnded from None
        except ChannelClosed:
            raise NotebookEnded from None

    async def _listen(self) -> None:
        try:
            while True:
                self._take(*await self._channel.receive())
        except ChannelClosed:
            self._end_soon("its processes were ended")
        except ProtocolBroken as error:
            self._end_soon(f"its driver is not what it was: {error}")

    def _take(self, message: Message, body: bytes) -> None:
        match message:
            case Ready() if not self._ready.is_set():
                self._ready.set()
            case Died():
                self._bury(message)
            case FileAnswer():
                self._questions.answered(message, body)
            case Done() if self._cell is not None and not self._cell.done():
                self._cell.set_result(CellEnd(done=message, interrupted=self._interrupted))
            case Printed() | Shown() | Raised() if self._outputs is not None:
                self._outputs.take(message, body)
            case _:
                raise ProtocolBroken("it tells what it was not asked")

    def _bury(self, message: Died) -> None:
        kills = self._process.memory_kills
        self.last_death = Death(message.return_code, out_of_memory=kills > self._memory_kills)
        self.ran_out_of_memory = self.last_death.out_of_memory
        self._memory_kills = kills
        self.restarts += 1
        if self.restarts > MOST_RESTARTS:
            raise ProtocolBroken("its kernel ends again and again")
        self._ready.clear()
        if self._cell is not None and not self._cell.done():
            self._cell.set_result(CellEnd(death=self.last_death, interrupted=self._restarting))
        else:
            self._is_told = self._restarting
        self._restarting = False

    def _end_soon(self, reason: str) -> "asyncio.Task[None]":
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(reason))
        return self._ending

    async def _end(self, reason: str) -> None:
        self.end_reason = reason
        try:
            await self._dismiss()
            await self._close()
        except SandboxFailure as failure:
            self.end_reason = f"{reason} ({failure.message})"
        finally:
            self.ended_at = time.monotonic()
            self._ready.set()
            self._questions.give_up()
            if self._cell is not None and not self._cell.done():
                self._cell.set_result(CellEnd())

    async def _dismiss(self) -> None:
        """Let the driver end by itself: it counts what the kernel has used."""
        with suppress(TimeoutError, ChannelClosed):
            async with asyncio.timeout(DISMISSAL_SECONDS):
                await self._channel.send({"type": "end"})
                await asyncio.wait((self._listening,))
        self._listening.cancel()
        await self._channel.close()

    async def _close(self) -> None:
        kills = self._process.memory_kills
        self.outcome = await self._process.close()
        # Where kills are counted, an earlier one may have been of a kernel before this one.
        unseen = kills == 0 and self.outcome.ending is Ending.OUT_OF_MEMORY
        if unseen or kills > self._memory_kills:
            self.ran_out_of_memory = True
            self.end_reason = "it used more memory than it may"
        if self.outcome.stderr:
            logger.warning("the driver of a notebook wrote %.1000r", self.outcome.stderr)


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
