"""A slot runs one program at a time, each in a fresh sandbox."""

import asyncio
import contextlib
import os
import select
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from services.sandbox.execution import Command, Execution, OutputListener, SandboxFailure
from services.sandbox.guest.frames import ChannelClosed, Header
from services.sandbox.guest.layout import LAYOUT
from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.network.proxy import Network, Proxy
from services.sandbox.pool.crowd import Occupant
from services.sandbox.pool.protocol import (
    MessageUnread,
    NotebookCommand,
    build_request,
    readable,
    run_environment,
)
from services.sandbox.pool.run import SlotLost, SlotRun
from services.sandbox.pool.zygote import SlotProcess

_READY_SECONDS = 20.0
_OVERTIME_SECONDS = 15.0
_SETTLE_SECONDS = 2.0
_LAST_WORD_SECONDS = 2.0
_SETTLE_BYTES = 32 << 20


class Slot:
    """Runs programs one after another; a ``broken`` slot runs no more and must be closed.

    ``number`` is unique among the living slots of the pool; ``free`` returns it. ``network`` is
    what programs reach through a proxy, if anything.
    """

    def __init__(
        self,
        number: int,
        process: SlotProcess,
        cgroup: Cgroup,
        network: Network | None,
        free: Callable[[], Awaitable[None]],
    ) -> None:
        self.number = number
        self.broken = False
        self.last_used = time.monotonic()
        self.occupant: Occupant | None = None
        self._process = process
        self._cgroup = cgroup
        self._network = network
        self._proxy: Proxy | None = None
        self._free = free
        self._layout: Mapping[str, str] | None = None
        self._idle_usage: int | None = None
        self._memory_limit: int | None = None
        self._closing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Let the slot prepare its first run; raises `SlotLost`."""
        # In a thread: moving a process between control groups may block in the kernel.
        await asyncio.to_thread(self._cgroup.add, self._process.pid)
        await self._send({"start": True})

    async def prepare(self) -> None:
        """Wait until a fresh sandbox is ready for the next run; raises `SlotLost`."""
        self.occupant = None
        layout, _ = await self.answer(_READY_SECONDS)
        if self._network is not None:
            self._proxy = self._network.proxy(self._take_descriptor())
        await self._wait_until_freed()
        self._layout = layout

    async def begin(
        self,
        execution: Execution,
        command: Command | NotebookCommand,
        *,
        seconds: float | None,
        listener: OutputListener | None = None,
        channel: int | None = None,
    ) -> "SlotRun":
        """Start a program, with the descriptor ``channel`` after its streams; raises `SlotLost`."""
        layout, self._layout = self._layout, None
        if layout is None:
            raise self._lost("it was not ready")
        proxied = self._proxy is not None
        environment = run_environment(layout, execution.environment, proxied=proxied)
        message = build_request(execution, command, seconds, environment)
        self._limit_memory(execution.limits.memory_bytes)
        folder = layout["workspace"].removesuffix(LAYOUT.workspace)
        run = SlotRun(self, self._cgroup, execution, seconds, listener, self._proxy, folder)
        self._proxy = None
        try:
            descriptors = run.ends if channel is None else [*run.ends, channel]
            await self._send(message, execution.files.values(), descriptors)
        except BaseException as error:
            self.broken = True
            run.discard()
            if isinstance(error, SlotLost):
                error.started = False  # a program starts once it has the whole message
            raise
        limit = execution.limits.memory_bytes
        self.occupant = Occupant(self._process.pid, time.monotonic(), limit)
        run.started(self.occupant)
        return run

    async def answer(self, seconds: float | None) -> tuple[Header, bytes]:
        """Wait for the slot's next message; raises `SlotLost`."""
        try:
            async with asyncio.timeout(seconds):
                header, body = await self._process.channel.receive()
        except TimeoutError:
            raise self._lost(f"no answer within {seconds:.0f} s", silent=True) from None
        except ChannelClosed as closed:
            started = not isinstance(closed, MessageUnread)
            raise self._lost("its process died", started=started) from None
        except BaseException:
            self.broken = True
            raise
        if "failure" in header:
            lost = self._lost(header["failure"], started=header["started"])
            raise SandboxFailure(str(lost)) if header.get("final") else lost
        return header, body

    async def cancel(self) -> tuple[Header, bytes]:
        """Kill the running program and return its result; raises `SlotLost`."""
        self.broken = True
        await self._process.channel.send_cancel()
        answer = await self.answer(_OVERTIME_SECONDS)
        self.broken = False
        return answer

    def abandon(self) -> None:
        """Kill everything in the slot; a pending `answer` raises `SlotLost`.

        Nothing keeps running, but hundreds of processes die slowly: `close` waits for them.
        """
        self.broken = True
        with contextlib.suppress(OSError):  # `close` kills what it missed
            self._cgroup.signal_all()
        self._process.channel.close()

    def is_alive(self) -> bool:
        """Whether its process is alive: it dies with its zygote."""
        poll = select.poll()
        poll.register(self._process.pidfd, select.POLLIN)
        return not self.broken and not poll.poll(0)

    async def close(self) -> None:
        """Kill everything in the slot; afterwards its number is free.

        Raises TimeoutError and OSError.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self.broken = True
        if self._proxy is not None:
            self._proxy.discard()
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._process.pidfd, signal.SIGKILL)
        async with asyncio.timeout(_OVERTIME_SECONDS):
            await readable(self._process.pidfd)
        self._process.channel.close()
        await asyncio.sleep(0)  # a pending `answer` reads the control group before it returns
        os.close(self._process.pidfd)
        await asyncio.to_thread(self._cgroup.remove)  # with everything still in it
        await self._free()

    def _take_descriptor(self) -> int:
        try:
            return self._process.channel.take_descriptor()
        except ChannelClosed:
            raise self._lost("a descriptor is missing from its message") from None

    async def _wait_until_freed(self) -> None:
        """Wait until the kernel has freed the files of the previous run.

        They are freed with the last mount, a moment after the last process, and are charged until
        then.
        """
        usage = self._cgroup.usage()
        if usage is None:
            return
        self._idle_usage = usage if self._idle_usage is None else self._idle_usage
        most, end = self._idle_usage + _SETTLE_BYTES, time.monotonic() + _SETTLE_SECONDS
        if usage <= most:
            return
        # Slower to read, but without cached pages, which the kernel reclaims on demand.
        while (held := self._cgroup.held() or 0) > most:
            if time.monotonic() > end:
                raise self._lost(f"{held} bytes of earlier runs are still charged")
            await asyncio.sleep(0.005)

    def _limit_memory(self, limit: int) -> None:
        """Set the memory limit on top of what the idle slot itself uses; raises `SlotLost`."""
        if limit != self._memory_limit:
            try:
                self._cgroup.set_memory_limit(limit + (self._idle_usage or 0))
            except OSError as error:  # earlier runs have left more in use
                raise self._lost(f"its memory cannot be limited: {error.strerror}") from error
            self._memory_limit = limit
        self._cgroup.reset_peak()

    async def _send(
        self, message: Header, bodies: Iterable[bytes] = (), descriptors: Sequence[int] = ()
    ) -> None:
        try:
            async with asyncio.timeout(_OVERTIME_SECONDS):
                await self._process.channel.send(message, bodies, descriptors)
        except TimeoutError:
            raise self._lost("its process reads no messages") from None
        except ChannelClosed:
            await self.answer(_LAST_WORD_SECONDS)  # the reason, if it was still sent
            raise self._lost("its process reads no messages") from None

    def _lost(self, reason: str, *, started: bool = False, silent: bool = False) -> SlotLost:
        self.broken = True
        return SlotLost(reason, started=started or silent, silent=silent)
