"""A notebook: a driver and its kernel in a sandbox, as the service holds them."""

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from services.sandbox.execution import Ending, Execution, Outcome, SandboxFailure
from services.sandbox.inside.frames import ChannelClosed, Header
from services.sandbox.pool.pool import Pool
from services.sandbox.pool.sessions import SessionProcess
from services.sandbox.sessions.channel import DriverChannel
from services.sandbox.sessions.messages import (
    Died,
    Done,
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
ANSWER_SECONDS = 30.0
DISMISSAL_SECONDS = 1.0
MOST_RESTARTS = 1000


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
        self.ended_at: float | None = None
        self.end_reason = ""
        self.outcome: Outcome | None = None
        self._process = process
        self._channel = channel
        self._ready = asyncio.Event()
        self._outputs: CellOutputs | None = None
        self._cell: asyncio.Future[CellEnd] | None = None
        self._interrupted = False
        self._restarting = False
        self._last_death: Death | None = None
        self._is_told = True
        self._memory_kills = 0
        self._memory_ran_out = False
        self._asking = asyncio.Lock()
        self._answer: asyncio.Future[tuple[FileAnswer, bytes]] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, pool: Pool, execution: Execution, most_bytes: int) -> Self:
        """Start one with the files, the memory and the environment of ``execution``.

        ``most_bytes`` is the most that it may tell at once. Raises `SandboxFailure`.
        """
        process = await pool.open_session(execution)
        try:
            channel = await DriverChannel.over(process.channel, most_bytes)
        except BaseException:
            await process.close()
            raise
        notebook = cls(process, channel)
        try:
            if await notebook.is_ready():
                return notebook
        except BaseException:
            await notebook.end("nobody waits for it")
            raise
        raise notebook._start_failure()

    async def execute(self, code: str, outputs: CellOutputs) -> CellEnd:
        """Run a cell to its end, however long it takes."""
        if not await self.is_ready():
            return CellEnd()
        if not self._is_told:
            self._is_told = True
            return CellEnd(death=self._last_death, begun=False)
        cell: asyncio.Future[CellEnd] = asyncio.get_running_loop().create_future()
        self._cell = cell
        self._outputs, self._interrupted = outputs, False
        try:
            room = vars(outputs.room)
            await self._tell({"type": "execute", "room": dict(room)}, code.encode())
            return await cell
        except NotebookEnded:
            return CellEnd()
        finally:
            self._cell = self._outputs = None

    async def interrupt(self) -> None:
        """Have the running cell, if there is one, raise KeyboardInterrupt."""
        if self._cell is not None:
            self._interrupted = True
            await self._tell_quietly({"type": "interrupt"})

    async def restart(self) -> None:
        """Replace the kernel, whatever it is doing."""
        if not self._ready.is_set():
            return  # it is a new one already
        self._ready.clear()
        self._interrupted = self._restarting = self._is_told = True
        await self._tell_quietly({"type": "restart"})

    async def ask(self, header: Header, body: bytes = b"") -> tuple[FileAnswer, bytes]:
        """Ask about files; raises `NotebookEnded`."""
        # Its answer comes even when nobody waits for it any more.
        return await asyncio.shield(asyncio.ensure_future(self._ask(header, body)))

    async def end(self, reason: str) -> None:
        """End it and all that it runs, for this reason; the first one counts."""
        await asyncio.shield(self._end_soon(reason))

    @property
    def return_code(self) -> int | None:
        """That of the last kernel that died, or else of what ended the notebook, if known."""
        if self._last_death is not None:
            return self._last_death.return_code
        return self.outcome.return_code if self.outcome is not None else None

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether the last kernel that died, or the notebook, used more memory than it may."""
        return self._memory_ran_out or (
            self._last_death is not None and self._last_death.out_of_memory
        )

    async def is_ready(self) -> bool:
        """Wait until a kernel waits for cells; false when there will be none any more."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            await self.end(f"its kernel was not ready within {START_SECONDS:.0f} s")
        return self._ending is None

    def _start_failure(self) -> SandboxFailure:
        outcome = self.outcome
        if self.ran_out_of_memory:
            return NotEnoughMemory("a kernel needs more memory than that")
        told = outcome.stderr.decode(errors="replace").strip() if outcome is not None else ""
        last_line = told.rpartition("\n")[2]
        return SandboxFailure(f"no kernel could be started: {last_line or self.end_reason}")

    async def _ask(self, header: Header, body: bytes) -> tuple[FileAnswer, bytes]:
        async with self._asking:
            answer: asyncio.Future[tuple[FileAnswer, bytes]] = (
                asyncio.get_running_loop().create_future()
            )
            self._answer = answer
            await self._tell(header, body)
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await answer
            except TimeoutError:
                await self.end("it did not answer in time")
                raise NotebookEnded from None
            finally:
                self._answer = None

    async def _tell(self, header: Header, body: bytes = b"") -> None:
        if self._ending is not None:
            raise NotebookEnded
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._channel.send(header, body)
        except TimeoutError:
            await self.end("it takes no messages")
            raise NotebookEnded from None
        except ChannelClosed:
            raise NotebookEnded from None

    async def _tell_quietly(self, header: Header) -> None:
        with suppress(NotebookEnded):  # there is nothing left to be stopped
            await self._tell(header)

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
            case FileAnswer() if self._answer is not None and not self._answer.done():
                self._answer.set_result((message, body))
            case Done() if self._cell is not None and not self._cell.done():
                self._cell.set_result(CellEnd(done=message, interrupted=self._interrupted))
            case Printed() | Shown() | Raised() if self._outputs is not None:
                self._outputs.take(message, body)
            case _:
                raise ProtocolBroken("it tells what it was not asked")

    def _bury(self, message: Died) -> None:
        kills = self._process.memory_kills
        death = Death(message.return_code, out_of_memory=kills > self._memory_kills)
        self._last_death = death
        self._memory_kills = kills
        self.restarts += 1
        if self.restarts > MOST_RESTARTS:
            raise ProtocolBroken("its kernel ends again and again")
        self._ready.clear()
        if self._cell is not None and not self._cell.done():
            self._cell.set_result(CellEnd(death=death, interrupted=self._restarting))
        else:
            self._is_told = self._restarting
        self._restarting = False

    def _end_soon(self, reason: str) -> "asyncio.Task[None]":
        if self._ending is None:
            self._ending = asyncio.create_task(self._end(reason))
        return self._ending

    async def _dismiss(self) -> None:
        """Let the driver end by itself: it counts what the kernel has used."""
        with suppress(TimeoutError, ChannelClosed):
            async with asyncio.timeout(DISMISSAL_SECONDS):
                await self._channel.send({"type": "end"})
                await asyncio.wait((self._listening,))
        self._listening.cancel()

    async def _end(self, reason: str) -> None:
        self.end_reason = reason
        try:
            await self._dismiss()
            await self._channel.close()
            kills = self._process.memory_kills
            self.outcome = await self._process.close()
            # Where kills are counted, an earlier one may have been of a kernel before this one.
            self._memory_ran_out = kills > self._memory_kills or (
                kills == 0 and self.outcome.ending is Ending.OUT_OF_MEMORY
            )
            if self.outcome.stderr:
                logger.warning("the driver of a notebook wrote %.1000r", self.outcome.stderr)
            if self._memory_ran_out:
                self.end_reason = "it used more memory than it may"
        except SandboxFailure as failure:
            self.end_reason = f"{reason} ({failure.message})"
        finally:
            self.ended_at = time.monotonic()
            self._ready.set()
            if self._cell is not None and not self._cell.done():
                self._cell.set_result(CellEnd())
            if self._answer is not None and not self._answer.done():
                self._answer.set_exception(NotebookEnded())
