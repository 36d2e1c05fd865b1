"""A program that runs in a slot, from its start to what came of it."""

import asyncio
import contextlib
import time
from typing import Protocol

from services.sandbox.execution import (
    Ending,
    Execution,
    Outcome,
    OutputListener,
    Stream,
)
from services.sandbox.guest.frames import Header
from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.network.proxy import Proxy
from services.sandbox.pool.orders import answer_of_the_dead, ending_of, files_of
from services.sandbox.pool.streams import Input, Output

_OVERTIME_SECONDS = 15.0


class SlotLost(Exception):
    """The slot's processes ended or hang; the program may have run, or not."""


class Conversation(Protocol):
    """What a run needs of its slot."""

    async def answer(self, seconds: float | None) -> tuple[Header, bytes]:
        """Wait for the slot's next message; raises `SlotLost`."""
        ...

    async def cancel(self) -> tuple[Header, bytes]:
        """End the running program and return its answer; raises `SlotLost`."""
        ...


class Run:
    """A program that runs in a slot."""

    def __init__(
        self,
        slot: Conversation,
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
        allowed = None if self._seconds is None else self._seconds + _OVERTIME_SECONDS
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
