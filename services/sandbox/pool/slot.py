"""A slot: a place where one program runs at a time, each in a fresh sandbox."""

import asyncio
import contextlib
import os
import select
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from services.sandbox.descriptors import readable
from services.sandbox.execution import Command, Execution, OutputListener, SandboxFailure
from services.sandbox.guest.frames import ChannelClosed, Header
from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.network.proxy import Network, Proxy
from services.sandbox.pool.orders import Notebook, environment_in, order
from services.sandbox.pool.runs import Run, SlotLost
from services.sandbox.pool.zygote import SlotProcess

_READY_SECONDS = 20.0
_OVERTIME_SECONDS = 15.0
_SETTLE_SECONDS = 2.0
_LAST_WORD_SECONDS = 2.0
_SETTLE_BYTES = 32 << 20


class Slot:
    """Runs programs one after another. When ``broken`` it serves no more and must be closed.

    ``number`` is its own among the living slots of the pool; ``free`` gives it back. ``network``
    is what programs reach by a proxy, if they have one.
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
        self._process = process
        self._cgroup = cgroup
        self._network = network
        self._proxy: Proxy | None = None
        self._free = free
        self._places: Mapping[str, str] | None = None
        self._idle_usage: int | None = None
        self._memory_limit: int | None = None
        self._closing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Let the slot prepare its first run; raises `SlotLost`."""
        # In a thread: the kernel may take a while to let everybody else pass.
        await asyncio.to_thread(self._cgroup.add, self._process.pid)
        await self._send({"start": True})

    async def prepare(self) -> None:
        """Wait until a fresh sandbox is there for the next run; raises `SlotLost`."""
        places, _ = await self.answer(_READY_SECONDS)
        if self._network is not None:
            self._proxy = self._network.proxy(self._take_descriptor())
        await self._wait_until_freed()
        self._places = places

    async def begin(
        self,
        execution: Execution,
        command: Command | Notebook,
        *,
        seconds: float | None,
        listener: OutputListener | None = None,
        channel: int | None = None,
    ) -> Run:
        """Start a program, with the descriptor ``channel`` after its streams; raises `SlotLost`."""
        places, self._places = self._places, None
        if places is None:
            raise self._lost("it was not ready")
        proxied = self._proxy is not None
        environment = environment_in(places, execution.environment, proxied=proxied)
        message = order(execution, command, seconds, environment)
        self._limit_memory(execution.limits.memory_bytes)
        run = Run(self, self._cgroup, execution, seconds, listener, self._proxy)
        self._proxy = None
        try:
            descriptors = run.ends if channel is None else [*run.ends, channel]
            await self._send(message, execution.files.values(), descriptors)
        except BaseException:
            self.broken = True
            run.discard()
            raise
        run.started()
        return run

    async def answer(self, seconds: float | None) -> tuple[Header, bytes]:
        """Wait for the slot's next message; raises `SlotLost`."""
        try:
            async with asyncio.timeout(seconds):
                header, body = await self._process.channel.receive()
        except TimeoutError:
            raise self._lost(f"no answer within {seconds:.0f} s") from None
        except ChannelClosed:
            raise self._lost("its process ended") from None
        except BaseException:
            self.broken = True
            raise
        if "failure" in header:
            lost = self._lost(header["failure"])
            raise SandboxFailure(str(lost)) if header.get("final") else lost
        return header, body

    async def cancel(self) -> tuple[Header, bytes]:
        """End the running program and return its answer; raises `SlotLost`."""
        self.broken = True
        await self._process.channel.send_cancel()
        answer = await self.answer(_OVERTIME_SECONDS)
        self.broken = False
        return answer

    def is_alive(self) -> bool:
        """Whether its process is there: it ends with its zygote."""
        poll = select.poll()
        poll.register(self._process.pidfd, select.POLLIN)
        return not self.broken and not poll.poll(0)

    async def close(self) -> None:
        """End whatever runs here; the slot's place and number are free afterwards.

        Raises TimeoutError, OSError.
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
        await asyncio.sleep(0)  # who waits for an answer looks at the control group before it goes
        os.close(self._process.pidfd)
        await asyncio.to_thread(self._cgroup.remove)  # and whatever is still in it
        await self._free()

    def _take_descriptor(self) -> int:
        try:
            return self._process.channel.take_descriptor()
        except ChannelClosed:
            raise self._lost("a descriptor is missing from its message") from None

    async def _wait_until_freed(self) -> None:
        """Wait until the kernel has given back the files of the run before.

        They go with the last mount, a moment after the last process, and count until then.
        """
        usage = self._cgroup.usage()
        if usage is None:
            return
        self._idle_usage = usage if self._idle_usage is None else self._idle_usage
        most, end = self._idle_usage + _SETTLE_BYTES, time.monotonic() + _SETTLE_SECONDS
        if usage <= most:
            return
        # Slower to ask, and without the cached files that the kernel takes back when it must.
        while (held := self._cgroup.held() or 0) > most:
            if time.monotonic() > end:
                raise self._lost(f"{held} bytes of earlier runs remain")
            await asyncio.sleep(0.005)

    def _limit_memory(self, limit: int) -> None:
        """Allow a run so much on top of what the waiting slot holds itself; raises `SlotLost`."""
        if limit != self._memory_limit:
            try:
                self._cgroup.set_memory_limit(limit + (self._idle_usage or 0))
            except OSError as error:  # more than that remains of earlier runs
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
            raise self._lost("its process takes no message") from None
        except ChannelClosed:
            await self.answer(_LAST_WORD_SECONDS)  # why, if it still said so
            raise self._lost("its process takes no message") from None

    def _lost(self, reason: str) -> SlotLost:
        self.broken = True
        return SlotLost(reason)
