"""A program that runs in a slot: its streams, its limits, and how it ended."""

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from services.sandbox.execution import (
    Execution,
    ExitReason,
    Outcome,
    OutputListener,
    Stream,
)
from services.sandbox.guest.frames import Header
from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.network.proxy import Proxy
from services.sandbox.pool.crowd import CrowdWatch, Occupant
from services.sandbox.pool.protocol import exit_reason_of, killed_result, split_files
from services.sandbox.pool.streams import Input, ProgramOutput

if TYPE_CHECKING:  # slots start runs
    from services.sandbox.pool.slot import Slot

_FILES_SECONDS = 15.0
"""How long after the time limit of a program its files may arrive."""
_VERDICT_SECONDS = 5.0
"""How long after the time limit its slot may report what happened, without files."""


class SlotLost(Exception):
    """The slot's processes died or hang; ``started`` unless the program certainly did not start.

    ``silent`` if they are alive but did not answer in time.
    """

    def __init__(self, reason: str, *, started: bool = False, silent: bool = False) -> None:
        super().__init__(reason)
        self.started = started
        self.silent = silent


class SlotRun:
    """A program that runs in a slot.

    ``folder`` holds its private folders; empty if they are at the same place in every run.
    """

    def __init__(
        self,
        slot: "Slot",
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
