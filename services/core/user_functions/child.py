"""The process that holds one function and calls it, one call at a time.

Standard input and output carry JSON lines. What the function itself prints goes to standard error.
It runs apart from its caller because a function can hang, use up the memory or end the process.
"""

import asyncio
import ctypes
import importlib
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run as ``python -m services.core.user_functions.child package.module.function``."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        function = _function(sys.argv[1])
    except Exception as error:
        _say(answers, {"error": f"{sys.argv[1]} cannot be imported: {_told(error)}"})
        return
    _say(answers, {"ready": True})
    for line in requests:
        _say(answers, _answer(function, json.loads(line)))


def _function(path: str) -> Callable[..., Any]:
    module, _, name = path.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise TypeError(f"{path} is no function")
    return function  # type: ignore[no-any-return]


def _answer(function: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        value = function(**arguments)
        if inspect.isawaitable(value):
            value = asyncio.run(_wait_for(value))
        json.dumps(value)
    except Exception as error:
        return {"error": _told(error)}
    return {"value": value}


async def _wait_for(value: Any) -> Any:
    return await value


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:1000]


def _say(answers: Any, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
