"""The process that imports one function and calls it, one call at a time.

Run as ``python -m services.core.user_functions.child package.module.function``.
"""

import asyncio
import importlib
import inspect
import sys
from typing import Any

from services.core.process.worker_child import Answer, serve


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
