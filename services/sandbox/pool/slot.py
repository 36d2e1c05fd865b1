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
    Execution,
    ExitReason,
    Outcome,
    OutputListener,
    SandboxFailure,
    Stream,
)
from services.sandbox.guest.frames import ChannelClosed, Header
from services.sandbox.guest.layout import LAYOUT
from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.network.proxy import Network, Proxy
from services.sandbox.pool.crowd import CrowdWatch, Occupant
from services.sandbox.pool.protocol import (
    MessageUnread,
    NotebookCommand,
    build_request,
    exit_reason_of,
    killed_result,
    readable,
    run_environment,
    split_files,
)
from services.sandbox.pool.streams import Input, ProgramOutput
from services.sandbox.pool.zygote import SlotProcess

_READY_SECONDS = 20.0
_OVERTIME_SECONDS = 15.0
_FILES_SECONDS = 15.0
"""How long after the time limit of a program its files may arrive."""
_VERDICT_SECONDS = 5.0
"""How long after the time limit its slot may report what happened, without files."""
_SETTLE_SECONDS = 2.0
_LAST_WORD_SECONDS = 2.0
_SETTLE_BYTES = 32 << 20


class SlotLost(Exception):
    """The slot's processes died or hang; ``started`` unless the program certainly did not start.

    ``silent`` if they are alive but did not answer in time.
    """

    def __init__(self, reason: str, *, started: bool = False, silent: bool = False) -> None:
        super().__init__(reason)
        self.started = started
        self.silent = silent


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


class SlotRun:
    """A program that runs in a slot.

    ``folder`` holds its private folders; empty if they are at the same place in every run.
    """

    def __init__(
        self,
        slot: Slot,
        cgroup: Cgroup,
        execution: Execution,
        seconds: float | None,
        listener: OutputListener | None,
        proxy: Proxy | None,
        folder: str,
    ) -> None:
        self._slot = slot
        self._cgroup = cgroup
        self._seconds = seconds
        self._folder = folder.encode()
        if listener is not None and folder:
            listener = self._in_place(listener)
        limit = execution.limits.output_bytes
        self._stdin = Input(execution.stdin)
        self._stdout = ProgramOutput(Stream.STDOUT, limit, listener)
        self._stderr = ProgramOutput(Stream.STDERR, limit, listener)
        self._endpoints: list[Input | ProgramOutput | Proxy] = [
            self._stdin,
            self._stdout,
            self._stderr,
        ]
        if proxy is not None:
            self._endpoints.append(proxy)
        awaited = None if execution.fetch else seconds  # only the slot can send files
        self._crowd_watch = CrowdWatch(cgroup, awaited, self._end_overdue)
        self._is_overdue = False
        self._fetches = bool(execution.fetch)
        self._usage = cgroup.usage() or 0
        self._memory_kills = cgroup.oom_kills()
        self._started_at = time.monotonic()

    @property
    def ends(self) -> list[int]:
        """The program's standard input, output and error."""
        return [self._stdin.read_end, self._stdout.write_end, self._stderr.write_end]

    def discard(self) -> None:
        """Close everything: the program was never started."""
        for endpoint in self._endpoints:
            endpoint.discard()

    def started(self, occupant: Occupant) -> None:
        """Start pumping stdin, stdout and stderr; the child now owns its pipe ends."""
        for endpoint in self._endpoints:
            endpoint.started()
        self._crowd_watch.start(occupant)

    async def outcome(self) -> Outcome:
        """Wait for the end; cancelling this kills the program. Raises `SlotLost`."""
        slack = _FILES_SECONDS if self._fetches else _VERDICT_SECONDS
        allowed = None if self._seconds is None else self._seconds + slack
        try:
            header, body = await self._slot.answer(allowed)
        except SlotLost as lost:
            # A slot that gets no turn says nothing of the machine: its program took them all.
            self._is_overdue |= lost.silent
            header, body = self._result_despite(lost), b""
        except asyncio.CancelledError:
            with contextlib.suppress(SlotLost):  # which kills everything in the slot
                await self._slot.cancel()
            raise
        finally:
            self._finish()
        return self._outcome(header, body)

    async def cancel(self) -> Outcome:
        """Kill the program now; raises `SlotLost`."""
        try:
            header, body = await self._slot.cancel()
        except SlotLost as lost:
            header, body = self._result_despite(lost), b""
        finally:
            self._finish()
        return self._outcome(header, body)

    def _finish(self) -> None:
        self._crowd_watch.stop()
        for endpoint in self._endpoints:
            endpoint.finish()

    @property
    def memory_kills(self) -> int:
        """Number of its processes killed at the memory limit, as far as known."""
        return self._cgroup.oom_kills() - self._memory_kills

    def _memory_ran_out(self) -> bool:
        return self.memory_kills > 0

    def _end_overdue(self) -> None:
        self._is_overdue = True
        self._slot.abandon()

    def _result_despite(self, lost: SlotLost) -> Header:
        """The result if the cause of the loss is known; raises ``lost`` otherwise."""
        wall_seconds = time.monotonic() - self._started_at
        if self._memory_ran_out():
            return killed_result("out_of_memory", wall_seconds)
        if self._is_overdue:
            return killed_result("timed_out", wall_seconds)
        raise lost

    def _in_place(self, listener: OutputListener) -> OutputListener:
        return lambda stream, piece: listener(stream, self._as_in_place(piece))

    def _as_in_place(self, output: bytes) -> bytes:
        """Output as if the private folders were where the full tier has them.

        Otherwise tracebacks and compiler messages would differ from run to run.
        """
        return output.replace(self._folder, b"") if self._folder else output

    def _outcome(self, header: Header, body: bytes) -> Outcome:
        ending = exit_reason_of(header, memory_ran_out=self._memory_ran_out())
        peak = self._cgroup.peak()
        return Outcome(
            exit_reason=ending,
            return_code=None if ending is ExitReason.TIMED_OUT else header["return_code"],
            stdout=self._as_in_place(self._stdout.kept),
            stderr=self._as_in_place(self._stderr.kept),
            stdout_cut=self._stdout.cut,
            stderr_cut=self._stderr.cut,
            wall_seconds=header["wall_seconds"],
            cpu_seconds=header["cpu_seconds"],
            peak_memory_bytes=(
                header["peak_memory_bytes"] if peak is None else max(0, peak - self._usage)
            ),
            files=split_files(header, body),
            left_out=tuple(header["left_out"]),
            waited_seconds=header["waited_seconds"],
        )
