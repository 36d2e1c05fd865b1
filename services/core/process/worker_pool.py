"""A pool of child processes that answer JSON requests, one at a time each (see `worker_child`).

For code that can hang, use up the memory or end its process: the operator's functions, reward
models, symbolic mathematics. A child that misbehaves is killed with its process group, and the
next request gets another.
"""

import asyncio
import contextlib
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from typing import Any, Self

from services.contracts.base import JsonObject
from services.contracts.errors import TemperError


class WorkerFailed(TemperError):
    """The request was not answered; the message says why, without a subject."""

    code = "worker_failed"


class WorkerNotStarted(WorkerFailed):
    """The child could not be started, or could not load what answers."""


class WorkerTimedOut(WorkerFailed):
    """The child did not answer in time and was killed."""

    code = "worker_timed_out"


class WorkerPool:
    """At most ``size`` children of ``command``, started on demand and kept until the block ends.

    ``environment`` is all that a child sees. Use it as an async context manager.
    """

    def __init__(
        self,
        command: Sequence[str],
        size: int,
        environment: Mapping[str, str],
        *,
        start_seconds: float,
        max_answer_bytes: int,
    ) -> None:
        self._command = command
        self._environment = environment
        self._start_seconds = start_seconds
        self._max_answer_bytes = max_answer_bytes
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Process] = []
        self._all: set[Process] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in list(self._all):
            await self._kill(process)

    async def start(self) -> None:
        """Have at least one child that is ready; raises `WorkerFailed`."""
        async with self._slots:
            self._idle.append(await self._idle_or_new())

    async def call(self, request: JsonObject, timeout: float) -> Any:  # noqa: ASYNC109
        """Return the answer to a request.

        The timeout covers neither the wait for a free child nor its start. Raises `WorkerFailed`.
        """
        async with self._slots:
            process = await self._idle_or_new()
            answer = await self._exchange(process, request, timeout)
            if "error" not in answer and "value" not in answer:
                await self._kill(process)
                raise WorkerFailed("gave no answer")
            self._idle.append(process)
        if "error" in answer:
            raise WorkerFailed(f"raised {answer['error']}")
        return answer["value"]

    async def _idle_or_new(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
            await self._kill(process)  # what it started may still run
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                env=dict(self._environment),
                limit=self._max_answer_bytes,
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerNotStarted(f"could not be started: {error}") from error
        self._all.add(process)
        first = await self._exchange(process, None, self._start_seconds)
        if "ready" not in first:
            await self._kill(process)
            raise WorkerNotStarted(f"could not be loaded: {first.get('error', 'no answer')}")
        return process

    async def _exchange(
        self, process: Process, request: JsonObject | None, seconds: float
    ) -> dict[str, Any]:
        """Send a request (None: wait for the first line) and read a line; kill the child if it
        fails in any way, or if this is cancelled."""
        try:
            async with asyncio.timeout(seconds):
                answer = json.loads(await self._line(process, request))
        except TimeoutError:
            await self._kill(process)
            raise WorkerTimedOut(f"did not answer within {seconds:g} s") from None
        except ConnectionError:
            await self._kill(process)
            raise WorkerFailed("ended its process") from None
        except ValueError:
            await self._kill(process)
            raise WorkerFailed("gave no answer: its output is not JSON") from None
        except BaseException:
            await self._kill(process)
            raise
        return answer if isinstance(answer, dict) else {}

    async def _line(self, process: Process, request: JsonObject | None) -> bytes:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018
        if request is not None:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            await process.stdin.drain()
        try:
            line = await process.stdout.readline()
        except ValueError:
            size = self._max_answer_bytes >> 10
            raise WorkerFailed(f"answered with more than {size} KiB") from None
        if not line.endswith(b"\n"):
            raise ConnectionResetError
        return line

    async def _kill(self, process: Process) -> None:
        """Kill a child's process group and wait until the child is gone."""
        self._all.discard(process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
