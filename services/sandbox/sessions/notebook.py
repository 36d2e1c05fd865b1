"""A notebook: a driver and its kernel in a sandbox."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from services.sandbox.execution import ExitReason, Outcome, SandboxFailure
from services.sandbox.guest.frames import ChannelClosed, Header
from services.sandbox.pool.sessions import SessionProcess
from services.sandbox.sessions.driver import (
    CellDisplay,
    CellDone,
    Died,
    DriverChannel,
    FileAnswer,
    KernelReady,
    Message,
    Printed,
    ProtocolBroken,
    Raised,
)
from services.sandbox.sessions.outputs import CellOutputs

logger = logging.getLogger(__name__)

START_SECONDS = 30.0
SEND_SECONDS = 30.0
DISMISSAL_SECONDS = 1.0
MAX_RESTARTS = 1000
ANSWER_SECONDS = 30.0

Answer = tuple[FileAnswer, bytes]


@dataclass(frozen=True)
class KernelExit:
    """Why a kernel exited. ``return_code`` is -N after death by signal N."""

    return_code: int
    out_of_memory: bool


@dataclass(frozen=True)
class CellOutcome:
    """How a cell ended: by itself, with its kernel, or with the notebook.

    ``started`` is False if the kernel had died before the cell could run.
    """

    done: CellDone | None = None
    kernel_exit: KernelExit | None = None
    started: bool = True
    interrupted: bool = False


class NotEnoughMemory(SandboxFailure):
    """The memory limit is too small for a kernel."""


class NotebookEnded(Exception):
    """The notebook has ended, or ended during the request."""


class Notebook:
    """Runs one cell at a time.

    After the end, ``ended_at`` is the time by `time.monotonic`, ``end_reason`` says why, and
    ``outcome`` is that of its processes, if known.
    """

    def __init__(self, process: SessionProcess, channel: DriverChannel) -> None:
        self.restarts = 0
        self.last_exit: KernelExit | None = None
        self.ended_at: float | None = None
        self.end_reason = ""
        self.outcome: Outcome | None = None
        self.ran_out_of_memory = False
        self._process = process
        self._channel = channel
        self._ready = asyncio.Event()
        self._outputs: CellOutputs | None = None
        self._cell: asyncio.Future[CellOutcome] | None = None
        self._interrupted = self._restarting = False
        self._exit_reported = True  # whether the client knows of the last exit
        self._memory_kills = 0
        self._file_requests = FileRequests(self._send)
        self._ending: asyncio.Task[None] | None = None
        self._listening = asyncio.create_task(self._listen())

    async def is_ready(self) -> bool:
        """Wait for a ready kernel; False if there will be none."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._ready.wait()
        except TimeoutError:
            await self.end(f"its kernel was not ready within {START_SECONDS:.0f} s")
        return self._ending is None

    async def execute(self, code: str, outputs: CellOutputs) -> CellOutcome:
        """Run a cell to completion, without a time limit."""
        if not await self.is_ready():
            return CellOutcome()
        if not self._exit_reported:
            self._exit_reported = True
            return CellOutcome(kernel_exit=self.last_exit, started=False)
        cell: asyncio.Future[CellOutcome] = asyncio.get_running_loop().create_future()
        self._cell, self._outputs, self._interrupted = cell, outputs, False
        try:
            await self._send(
                {"type": "execute", "budget": dict(vars(outputs.budget))}, code.encode()
            )
            return await cell
        except NotebookEnded:
            return CellOutcome()
        finally:
            self._cell = self._outputs = None

    async def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the running cell, if there is one."""
        if self._cell is not None:
            self._interrupted = True
            with suppress(NotebookEnded):  # nothing is running any more
                await self._send({"type": "interrupt"})

    async def restart(self) -> None:
        """Replace the kernel, even a busy one, unless a new one is already starting."""
        if self._ready.is_set():
            self._ready.clear()
            self._interrupted = self._restarting = self._exit_reported = True
            with suppress(NotebookEnded):
                await self._send({"type": "restart"})

    async def ask(self, header: Header, body: bytes = b"") -> Answer:
        """Send a file request; raises `NotebookEnded`."""
        try:
            return await self._file_requests.ask(header, body)
        except TimeoutError:
            await self.end("it did not answer in time")
            raise NotebookEnded from None

    async def end(self, reason: str) -> None:
        """Kill everything; the first reason given is kept."""
        await asyncio.shield(self._end_soon(reason))

    async def _send(self, header: Header, body: bytes = b"") -> None:
        if self._ending is not None:
            raise NotebookEnded
        try:
            async with asyncio.timeout(SEND_SECONDS):
                await self._channel.send(header, body)
        except TimeoutError:
            await self.end("it does not read its messages")
            raise NotebookEnded from None
        except ChannelClosed:
            raise NotebookEnded from None

    async def _listen(self) -> None:
        try:
            while True:
                self._take(*await self._channel.receive())
        except ChannelClosed:
            self._end_soon("its processes were killed")
        except ProtocolBroken as error:
            self._end_soon(f"its driver violated the protocol: {error}")
        except Exception as error:
            # Without an end, the running cell would wait forever.
            logger.exception("receiving a notebook's messages")
            self._end_soon(f"internal error: {type(error).__name__}")

    def _take(self, message: Message, body: bytes) -> None:
        match message:
            case KernelReady() if not self._ready.is_set():
                self._ready.set()
            case Died():
                self._on_kernel_exit(message)
            case FileAnswer():
                self._file_requests.deliver(message, body)
            case CellDone() if self._cell is not None and not self._cell.done():
                self._cell.set_result(CellOutcome(done=message, interrupted=self._interrupted))
            case Printed() | CellDisplay() | Raised() if self._outputs is not None:
                self._outputs.take(message, body)
            case _:
                raise ProtocolBroken("an unexpected message")

    def _on_kernel_exit(self, message: Died) -> None:
        kills = self._process.memory_kills
        self.last_exit = KernelExit(message.return_code, out_of_memory=kills > self._memory_kills)
        self.ran_out_of_memory = self.last_exit.out_of_memory
        self._memory_kills = kills
        self.restarts += 1
        if self.restarts > MAX_RESTARTS:
            raise ProtocolBroken("its kernel keeps dying")
        self._ready.clear()
        if self._cell is not None and not self._cell.done():
            self._cell.set_result(
                CellOutcome(kernel_exit=self.last_exit, interrupted=self._restarting)
            )
        else:
            self._exit_reported = self._restarting
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
        except Exception as error:
            logger.exception("ending a notebook")
            self.end_reason = f"{reason} (internal error: {type(error).__name__})"
        finally:
            self.ended_at = time.monotonic()
            self._ready.set()
            self._file_requests.fail_pending()
            if self._cell is not None and not self._cell.done():
                self._cell.set_result(CellOutcome())

    async def _dismiss(self) -> None:
        """Let the driver exit, so that it accounts for the kernel's usage; never raises, since its
        processes must be killed in any case."""
        try:
            with suppress(TimeoutError, ChannelClosed):
                async with asyncio.timeout(DISMISSAL_SECONDS):
                    await self._channel.send({"type": "end"})
                    await asyncio.wait((self._listening,))
            self._listening.cancel()
            await self._channel.close()
        except Exception:
            logger.exception("dismissing a notebook's driver")

    async def _close(self) -> None:
        kills = self._process.memory_kills
        self.outcome = await self._process.close()
        # Kills are cumulative: earlier ones may belong to a previous kernel.
        unseen = kills == 0 and self.outcome.exit_reason is ExitReason.OUT_OF_MEMORY
        if unseen or kills > self._memory_kills:
            self.ran_out_of_memory = True
            self.end_reason = "it exceeded its memory limit"
        if self.outcome.stderr:
            logger.warning("the driver of a notebook wrote %.1000r", self.outcome.stderr)


class FileRequests:
    """File requests to a driver, one at a time."""

    def __init__(self, send: Callable[[Header, bytes], Awaitable[None]]) -> None:
        self._send = send
        self._turn = asyncio.Lock()
        self._answer: asyncio.Future[Answer] | None = None

    async def ask(self, header: Header, body: bytes) -> Answer:
        """Send a request and wait for its answer; raises `NotebookEnded` and TimeoutError."""
        # The answer arrives even if the client disconnects, so the lock is held until then.
        return await asyncio.shield(asyncio.ensure_future(self._ask(header, body)))

    def deliver(self, message: FileAnswer, body: bytes) -> None:
        """Deliver an answer; raises `ProtocolBroken` if none is expected."""
        if self._answer is None or self._answer.done():
            raise ProtocolBroken("an unexpected answer")
        self._answer.set_result((message, body))

    def fail_pending(self) -> None:
        """Fail the pending request: the driver is gone."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(NotebookEnded())

    async def _ask(self, header: Header, body: bytes) -> Answer:
        async with self._turn:
            self._answer = asyncio.get_running_loop().create_future()
            try:
                await self._send(header, body)
                async with asyncio.timeout(ANSWER_SECONDS):
                    return await self._answer
            finally:
                self._answer = None
