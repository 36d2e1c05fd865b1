"""What the sandbox is asked to run, and what came of it.

These values are all that the routes, the languages and the sessions know of the pool that runs
programs, and all that the pool knows of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from services.contracts.errors import TemperError


class Stream(StrEnum):
    """An output stream of a program."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    ``seconds`` is wall-clock time from its start; at zero or less it is not started and counts
    as timed out. ``memory_bytes`` counts the real memory of all its processes and files;
    ``output_bytes`` is kept of each stream, the rest is drained and dropped.
    """

    seconds: float
    memory_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class PythonFile:
    """A Python file of the work directory, run as ``python FILE`` in a warm interpreter."""

    file: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class PythonModule:
    """An installed Python module, run as ``python -m MODULE`` in a warm interpreter."""

    module: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Executable:
    """A program with its arguments; no shell is between. Looked up on the sandbox's PATH."""

    arguments: tuple[str, ...]


Command = PythonFile | PythonModule | Executable


@dataclass(frozen=True)
class Execution:
    """One program in a fresh sandbox.

    ``files`` and ``fetch`` are paths below the work directory, already checked by
    `services.sandbox.wire`. A fetched path may be a pattern (``*.class``, ``build/**``); files
    that are missing, not regular, or reached through a link are left out. ``imports`` are the
    top-level Python modules that the program is known to import: they choose the interpreter
    that has most of them loaded, nothing else.
    """

    command: Command
    limits: Limits
    files: Mapping[str, bytes] = field(default_factory=dict)
    executable_files: frozenset[str] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    fetch: tuple[str, ...] = ()
    imports: frozenset[str] = frozenset()


class Ending(StrEnum):
    """How a program ended."""

    EXITED = "exited"  # by itself or by a signal: there is a return code
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"  # killed at its memory limit: the return code is -9
    OUT_OF_DISK = "out_of_disk"  # killed at the bound of its files: the return code is -9


@dataclass(frozen=True)
class Outcome:
    """What came of an execution.

    ``return_code`` is -N after death by signal N and None after a time-out. Times are seconds;
    ``cpu_seconds`` is user and system time of all processes. ``stdout_cut`` and ``stderr_cut``
    say that more was written than kept. ``left_out`` are files that were asked for and
    would have made the answer too large.
    """

    ending: Ending
    return_code: int | None
    stdout: bytes
    stderr: bytes
    stdout_cut: bool
    stderr_cut: bool
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int
    files: Mapping[str, bytes]
    left_out: tuple[str, ...] = ()


OutputListener = Callable[[Stream, bytes], None]
"""Called with each piece of output as it comes, up to the limit of its stream."""


class SandboxFailure(TemperError):
    """The sandbox itself failed: the program may not have run, or its result was lost."""

    code = "sandbox_failed"


class Runner(Protocol):
    """Runs programs, each in a sandbox of its own that is gone when `run` returns.

    Cancelling the call ends the program.
    """

    async def run(self, execution: Execution, listener: OutputListener | None = None) -> Outcome:
        """Run it to its end; raises `SandboxFailure`."""
        ...
