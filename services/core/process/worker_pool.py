"""A pool of child processes that answer JSON requests, one at a time each (see `worker_child`).

For code that can hang, exhaust memory or crash its process: the operator's functions, reward
models, symbolic mathematics. A child that misbehaves is killed with its process group, and the
next request gets another.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, PermissionDenied, TemperError
from services.core.process.runtimes import SEARCH_PATH, child_environment


class WorkerFailed(TemperError):
    """The request was not answered; the message says why, without a subject."""

    code = "worker_failed"


class WorkerNotStarted(WorkerFailed):
    """The child could not be started, or could not load its function."""


class WorkerTimedOut(WorkerFailed):
    """The child did not answer in time and was killed."""

    code = "worker_timed_out"


class WorkerEnded(WorkerFailed):
    """The child's process ended before it answered."""


class WorkerRaised(WorkerFailed):
    """The function raised; ``unavailable``: a `ConnectionError` or a `TimeoutError`, with which it
    says that what it depends on is unavailable."""

    def __init__(self, message: str, *, unavailable: bool) -> None:
        super().__init__(message)
        self.unavailable = unavailable


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
        """Ensure that one child is ready; raises `WorkerFailed`."""
        async with self._slots:
            self._idle.append(await self._idle_or_new())

    async def rest(self) -> None:
        """Stop the idle children; the next request starts another."""
        while self._idle:
            await self._kill(self._idle.pop())

    async def call(self, request: JsonObject, timeout: float) -> Any:  # noqa: ASYNC109 - it ends a process, too
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
            unavailable = answer.get("unavailable") is True
            raise WorkerRaised(f"raised {answer['error']}", unavailable=unavailable)
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
            raise WorkerEnded("ended its process") from None
        except ValueError:
            await self._kill(process)
            raise WorkerFailed("gave no answer: its output is not JSON") from None
        except BaseException:
            await self._kill(process)
            raise
        return answer if isinstance(answer, dict) else {}

    async def _line(self, process: Process, request: JsonObject | None) -> bytes:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
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


CHILD = "services.core.process.worker_child"
MAX_VALUE_BYTES = 64 << 20
START_SECONDS = 120.0
"""Importing the function's module may take long."""

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


class FunctionFailed(TemperError):
    """The function raised, ended its process, or returned a value that is not JSON."""

    code = "callable_failed"


class FunctionTimedOut(FunctionFailed):
    """The function did not return in time; its process was killed."""

    code = "callable_timed_out"


def check_function_allowed(path: str, allowed: Collection[str], param: str) -> None:
    """Raise `InvalidRequest` unless ``path`` is a dotted path to a function, and
    `PermissionDenied` unless the operator allows it. Nothing is imported."""
    if _DOTTED.fullmatch(path) is None:
        raise InvalidRequest("must be a dotted path, like package.module.function", param=param)
    if path not in allowed:
        raise PermissionDenied(
            f"{path} is not among the operator's TEMPER_ALLOWED_CALLABLES", param=param
        )


class FunctionPool(WorkerPool):
    """Calls the function at a dotted path by keyword, in at most ``processes`` processes.

    Processes start on demand and stay. Modules are also looked for in ``folder``; keys in the
    environment are not passed on. The caller has checked `check_function_allowed`. Use it as an
    async context manager.
    """

    def __init__(self, path: str, processes: int, folder: Path | None = None) -> None:
        self._path = path
        super().__init__(
            [sys.executable, "-m", CHILD, path],
            processes,
            child_environment({"PYTHONPATH": _search_path(folder)}),
            start_seconds=START_SECONDS,
            max_answer_bytes=MAX_VALUE_BYTES,
        )

    async def start(self) -> None:
        """Import the function in one process, unless one has it; raises `FunctionFailed`."""
        try:
            await super().start()
        except WorkerFailed as error:
            raise FunctionFailed(f"{self._path} cannot be imported: {error.message}") from error

    async def call(self, request: JsonObject, timeout: float) -> Any:  # noqa: ASYNC109 - it ends a process, too
        """The function's value, which is JSON, for the arguments in ``request``. The timeout covers
        the call alone, not the wait for a process and its start. Raises `FunctionFailed`."""
        try:
            return await super().call(request, timeout)
        except WorkerTimedOut as error:
            message = f"{self._path} did not return within {timeout:g} s"
            raise FunctionTimedOut(message) from error
        except WorkerNotStarted as error:
            raise FunctionFailed(f"{self._path} cannot be imported: {error.message}") from error
        except WorkerFailed as error:
            raise FunctionFailed(f"{self._path} {error.message}") from error


def _search_path(folder: Path | None) -> str:
    """The operator's folder first, then the repository and the inherited path."""
    places = [folder, SEARCH_PATH, os.environ.get("PYTHONPATH")]
    return os.pathsep.join(str(place) for place in places if place)
