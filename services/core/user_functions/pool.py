"""Calling functions of the operator in warm processes, which are killed when a call hangs."""

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, PermissionDenied, TemperError
from services.core.process.runtimes import REPOSITORY, child_environment

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", re.ASCII)


def check_callable(path: str, allowed: Collection[str], param: str) -> None:
    """Raise `InvalidRequest` for what is no dotted path to a function, and `PermissionDenied` for
    one that the operator has not allowed. Nothing is imported."""
    if _DOTTED.fullmatch(path) is None:
        raise InvalidRequest("must be a dotted path, like package.module.function", param=param)
    if path not in allowed:
        raise PermissionDenied(
            f"{path} is not among the operator's TEMPER_ALLOWED_CALLABLES", param=param
        )


CHILD = "services.core.user_functions.child"
LARGEST_VALUE = 64 * 2**20
START_SECONDS = 120.0
"""A module may import much."""


class CallableFailed(TemperError):
    """The function raised, ended its process, or gave no value that JSON can hold."""

    code = "callable_failed"


class CallableTimedOut(CallableFailed):
    """The function did not end in time; its process was killed."""

    code = "callable_timed_out"


class CallableProcesses:
    """Calls the function at a dotted path by keyword, in at most ``processes`` at once.

    Processes start when they are needed and stay; modules are also looked for in ``folder``, and
    of the environment no key is passed on. Who makes one has checked that the operator allows the
    function. Use it as an async context manager.
    """

    def __init__(self, path: str, processes: int, folder: Path | None = None) -> None:
        self._path = path
        self._environment = child_environment({"PYTHONPATH": _search_path(folder)})
        self._places = asyncio.Semaphore(processes)
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in list(self._all):
            await self._end(child)

    async def call(self, arguments: JsonObject, timeout: float) -> Any:  # noqa: ASYNC109
        """What the function returns, a value of JSON; ``timeout`` seconds are its own, without
        the wait for a process and its start. Raises `CallableFailed`."""
        async with self._places:
            child = await self._child()
            try:
                async with asyncio.timeout(timeout):
                    answer = await child.ask(arguments)
            except TimeoutError:
                await self._end(child)
                message = f"{self._path} did not return within {timeout:g} s"
                raise CallableTimedOut(message) from None
            except BaseException:
                await self._end(child)
                raise
            self._idle.append(child)
        if "error" in answer:
            raise CallableFailed(f"{self._path} raised {answer['error']}")
        return answer["value"]

    async def _child(self) -> "_Child":
        while self._idle:
            child = self._idle.pop()
            if child.process.returncode is None:
                return child
            self._all.discard(child)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", CHILD, self._path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LARGEST_VALUE,
            env=self._environment,
            start_new_session=True,
        )
        child = _Child(process, self._path)
        self._all.add(child)
        try:
            async with asyncio.timeout(START_SECONDS):
                first = await child.read()
        except TimeoutError:
            await self._end(child)
            message = f"{self._path} was not imported within {START_SECONDS:.0f} s"
            raise CallableTimedOut(message) from None
        except BaseException:
            await self._end(child)
            raise
        if "error" in first:
            await self._end(child)
            raise CallableFailed(first["error"])
        return child

    async def _end(self, child: "_Child") -> None:
        """Kill a process and what it started, and wait until it is gone."""
        self._all.discard(child)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, signal.SIGKILL)
        await child.process.wait()


def _search_path(folder: Path | None) -> str:
    """Where modules are found: the operator's own first, and ours in any case."""
    places = [folder, REPOSITORY, os.environ.get("PYTHONPATH")]
    return os.pathsep.join(str(place) for place in places if place)


@dataclass(eq=False)
class _Child:
    process: asyncio.subprocess.Process
    path: str

    async def ask(self, arguments: JsonObject) -> dict[str, Any]:
        assert self.process.stdin is not None  # noqa: S101 - it was started with a pipe
        try:
            self.process.stdin.write(json.dumps(arguments).encode() + b"\n")
            await self.process.stdin.drain()
        except ConnectionError:
            raise CallableFailed(f"{self.path} ended its process") from None
        return await self.read()

    async def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None  # noqa: S101 - it was started with a pipe
        try:
            line = await self.process.stdout.readline()
        except ValueError:
            message = f"{self.path} returned more than {LARGEST_VALUE >> 20} MiB"
            raise CallableFailed(message) from None
        if not line.endswith(b"\n"):
            raise CallableFailed(f"{self.path} ended its process")
        answer: dict[str, Any] = json.loads(line)
        return answer
