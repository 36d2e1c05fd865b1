"""Calling the operator's functions in warm child processes, killed when a call hangs."""

import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, PermissionDenied, TemperError
from services.core.process.runtimes import REPOSITORY, child_environment
from services.core.process.worker_pool import (
    WorkerFailed,
    WorkerNotStarted,
    WorkerPool,
    WorkerTimedOut,
)

CHILD = "services.core.user_functions.child"
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
    """Calls the function at a dotted path by keyword, in at most ``processes`` at once.

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
        """Import the function in a process, if none has; raises `FunctionFailed`."""
        try:
            await super().start()
        except WorkerFailed as error:
            raise FunctionFailed(f"{self._path} cannot be imported: {error.message}") from None

    async def call(self, request: JsonObject, timeout: float) -> Any:  # noqa: ASYNC109
        """The function's value, which is JSON, for the arguments in ``request``. The timeout covers
        the call alone, not the wait for a process and its start. Raises `FunctionFailed`."""
        try:
            return await super().call(request, timeout)
        except WorkerTimedOut:
            message = f"{self._path} did not return within {timeout:g} s"
            raise FunctionTimedOut(message) from None
        except WorkerNotStarted as error:
            raise FunctionFailed(f"{self._path} cannot be imported: {error.message}") from None
        except WorkerFailed as error:
            raise FunctionFailed(f"{self._path} {error.message}") from None


def _search_path(folder: Path | None) -> str:
    """The operator's folder first, then the repository and the inherited path."""
    places = [folder, REPOSITORY, os.environ.get("PYTHONPATH")]
    return os.pathsep.join(str(place) for place in places if place)
