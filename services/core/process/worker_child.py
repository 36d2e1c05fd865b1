"""The child's half of `worker_pool`: answers requests on standard input, one at a time.

Both streams carry JSON lines: first {"ready": true} or {"error": reason}, then {"value": answer} or
{"error": reason, "unavailable": true or false} for each request, the latter for a ConnectionError
or a TimeoutError. What the code prints goes to standard error.

Run as ``python -m services.core.process.worker_child package.module.function`` it calls that
function; other children, such as a reward model's, call `serve`.

Only the standard library is imported here, because every runtime imports this module.
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
from typing import IO, Any

PR_SET_PDEATHSIG = 1

Answer = Callable[[dict[str, Any]], Any]


def serve(load: Callable[[], Answer]) -> None:
    """Load the function, then answer requests until end of input. Dies with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        answer = load()
    except Exception as error:
        _send(answers, json.dumps({"error": _reason(error)}))
        return
    _send(answers, json.dumps({"ready": True}))
    for line in requests:
        try:
            reply = json.dumps({"value": answer(json.loads(line))})
        except Exception as error:
            unavailable = isinstance(error, (ConnectionError, TimeoutError))
            reply = json.dumps({"error": _reason(error), "unavailable": unavailable})
        _send(answers, reply)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:1000]


def _send(answers: IO[str], line: str) -> None:
    answers.write(line + "\n")
    answers.flush()


def load_function(path: str) -> Answer:
    """Import the function at a dotted path; coroutine functions are run to their end."""
    module, _, name = path.rpartition(".")
    function = getattr(importlib.import_module(module), name)
    if not callable(function):
        raise TypeError(f"{path} is not a function")

    def call(arguments: dict[str, Any]) -> Any:
        value = function(**arguments)
        return asyncio.run(_result(value)) if inspect.isawaitable(value) else value

    return call


async def _result(value: Any) -> Any:
    return await value


if __name__ == "__main__":
    serve(lambda: load_function(sys.argv[1]))
