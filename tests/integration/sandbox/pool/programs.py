"""Programs for a pool, and what can be seen of them from outside."""

from concurrent.futures import Future
from typing import Any

import psutil

from services.sandbox.execution import (
    Command,
    Execution,
    Limits,
    Outcome,
    OutputListener,
    PythonFile,
)
from tests.support.programs.sandbox_pool import PoolInThread

MEGABYTE = 1 << 20


def execution(
    command: Command,
    *,
    seconds: float = 60.0,
    memory_bytes: int = 512 * MEGABYTE,
    output_bytes: int = 8 * MEGABYTE,
    **others: Any,
) -> Execution:
    return Execution(command, Limits(seconds, memory_bytes, output_bytes), **others)


def python(source: str, **others: Any) -> Execution:
    files = {"main.py": source.encode(), **others.pop("files", {})}
    return execution(PythonFile("main.py"), files=files, **others)


def run(sandbox: PoolInThread, program: Execution) -> Outcome:
    return sandbox.call(sandbox.pool.run(program))


def start(
    sandbox: PoolInThread, program: Execution, listener: OutputListener | None = None
) -> "Future[Outcome]":
    return sandbox.begin(sandbox.pool.run(program, listener))


def descendants() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def named(word: str) -> list[psutil.Process]:
    """The processes below this one that have ``word`` among their arguments."""
    return [process for process in descendants() if word in arguments(process)]


def arguments(process: psutil.Process) -> list[str]:
    """Empty for one that has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def process_named(word: str) -> psutil.Process | None:
    found = named(word)
    return found[0] if found else None
