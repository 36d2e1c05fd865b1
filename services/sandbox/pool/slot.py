"""A slot runs one program at a time, each in a fresh sandbox."""

import asyncio
import contextlib
import os
import select
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from services.sandbox.execution import (
    Command,
    Ending,
    Execution,
    Outcome,
    OutputListener,
    SandboxFailure,
    Stream,
)
from services.sandbox.guest.frames import ChannelClosed, Header
from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.network.proxy import Network, Proxy
from services.sandbox.pool.protocol import (
    Notebook,
    answer_of_the_dead,
    ending_of,
    environment_in,
    files_of,
    order,
    readable,
)
from services.sandbox.pool.streams import Input, Output
from services.sandbox.pool.zygote import SlotProcess

_READY_SECONDS = 20.0
_OVERTIME_SECONDS = 15.0
_ANSWER_SLACK_SECONDS = 15.0
_SETTLE_SECONDS = 2.0
_LAST_WORD_SECONDS = 2.0
_SETTLE_BYTES = 32 << 20


class SlotLost(Exception):
    """The slot's processes ended or hang; the program may have run, or not."""


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
    ) -> "Run":
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


class Run:
    """A program that runs in a slot."""

    def __init__(
        self,
        slot: Slot,
        cgroup: Cgroup,
        execution: Execution,
        seconds: float | None,
        listener: OutputListener | None,
        proxy: Proxy | None,
    ) -> None:
        self._slot = slot
        self._cgroup = cgroup
        self._seconds = seconds
        limit = execution.limits.output_bytes
        self._stdin = Input(execution.stdin)
        self._stdout = Output(Stream.STDOUT, limit, listener)
        self._stderr = Output(Stream.STDERR, limit, listener)
        self._lines: list[Input | Output | Proxy] = [self._stdin, self._stdout, self._stderr]
        if proxy is not None:
            self._lines.append(proxy)
        self._usage = cgroup.usage() or 0
        self._memory_kills = cgroup.oom_kills()
        self._began = time.monotonic()

    @property
    def ends(self) -> list[int]:
        """The program's standard input, output and error."""
        return [self._stdin.read_end, self._stdout.write_end, self._stderr.write_end]

    def discard(self) -> None:
        """Close everything: the program was never started."""
        for line in self._lines:
            line.discard()

    def started(self) -> None:
        """Feed and drain: the program has its ends."""
        for line in self._lines:
            line.started()

    async def outcome(self) -> Outcome:
        """Wait for the end; cancelling this ends the program. Raises `SlotLost`."""
        allowed = None if self._seconds is None else self._seconds + _ANSWER_SLACK_SECONDS
        try:
            header, body = await self._slot.answer(allowed)
        except SlotLost:
            if not self._memory_ran_out():
                raise
            header, body = self._ended_by_memory(), b""
        except asyncio.CancelledError:
            with contextlib.suppress(SlotLost):  # then the slot ends, with all that runs in it
                await self._slot.cancel()
            raise
        finally:
            self._finish()
        return self._outcome(header, body)

    async def cancel(self) -> Outcome:
        """End the program now; raises `SlotLost`."""
        try:
            header, body = await self._slot.cancel()
        except SlotLost:
            if not self._memory_ran_out():
                raise
            header, body = self._ended_by_memory(), b""
        finally:
            self._finish()
        return self._outcome(header, body)

    def _finish(self) -> None:
        for line in self._lines:
            line.finish()

    @property
    def memory_kills(self) -> int:
        """How many of its processes were killed at its memory limit, as far as that is known."""
        return self._cgroup.oom_kills() - self._memory_kills

    def _memory_ran_out(self) -> bool:
        return self.memory_kills > 0

    def _ended_by_memory(self) -> Header:
        return answer_of_the_dead(time.monotonic() - self._began)

    def _outcome(self, header: Header, body: bytes) -> Outcome:
        ending = ending_of(header, memory_ran_out=self._memory_ran_out())
        peak = self._cgroup.peak()
        return Outcome(
            ending=ending,
            return_code=None if ending is Ending.TIMED_OUT else header["return_code"],
            stdout=self._stdout.kept,
            stderr=self._stderr.kept,
            stdout_cut=self._stdout.cut,
            stderr_cut=self._stderr.cut,
            wall_seconds=header["wall_seconds"],
            cpu_seconds=header["cpu_seconds"],
            peak_memory_bytes=(
                header["peak_memory_bytes"] if peak is None else max(0, peak - self._usage)
            ),
            files=files_of(header, body),
            left_out=tuple(header["left_out"]),
        )
