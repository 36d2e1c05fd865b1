"""What the sandbox runs and what it returns.

These types are the whole interface between the pool and its users: routes, languages and sessions.
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
    """Resource limits of one program.

    ``seconds`` is wall-clock time from its start; at zero or less the program is not started and
    counts as timed out. ``memory_bytes`` bounds the real memory of all its processes and files. The
    first ``output_bytes`` of each stream are kept, the rest is drained and dropped.
    """

    seconds: float
    memory_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class PythonFile:
    """A Python file in the work directory, run like ``python FILE`` in a warm interpreter."""

    file: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class PythonModule:
    """An installed Python module, run like ``python -m MODULE`` in a warm interpreter."""

    module: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Executable:
    """A program with its arguments, looked up on the sandbox's PATH; no shell is involved."""

    arguments: tuple[str, ...]


Command = PythonFile | PythonModule | Executable


@dataclass(frozen=True)
class Execution:
    """One program in a fresh sandbox.

    ``files`` and ``fetch`` are paths relative to the work directory, already checked by
    `services.sandbox.wire`. A fetched path may be a pattern (``*.class``, ``build/**``); files that
    are missing, not regular, or reached through a link are left out. ``links`` are symbolic links
    to make in the work directory, by name; where they lead is the service's choice. ``imports`` are
    the top-level modules that the program seems to import; they select the warmest interpreter and
    nothing else.
    """

    command: Command
    limits: Limits
    files: Mapping[str, bytes] = field(default_factory=dict)
    executable_files: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    fetch: tuple[str, ...] = ()
    imports: frozenset[str] = frozenset()


class ExitReason(StrEnum):
    """Why a program ended."""

    EXITED = "exited"  # normally or by a signal: there is a return code
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"  # killed at its memory limit: the return code is -9
    OUT_OF_DISK = "out_of_disk"  # killed at its disk limit: the return code is -9
    FORK_BOMB = "fork_bomb"  # killed because hundreds of its processes compute: likewise


@dataclass(frozen=True)
class Outcome:
    """The result of an execution.

    ``return_code`` is -N after death by signal N and None after a timeout. Times are seconds;
    ``cpu_seconds`` is user plus system time of all processes; ``waited_seconds``, after a timeout,
    the time that the program was ready to run, but had no processor. ``stdout_cut`` and
    ``stderr_cut`` mean that output was dropped. ``left_out`` lists requested files that would have
    made the response too large.
    """

    exit_reason: ExitReason
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
    waited_seconds: float = 0.0


OutputListener = Callable[[Stream, bytes], None]
"""Called with each piece of output as it arrives, up to the limit of its stream."""


class SandboxFailure(TemperError):
    """The sandbox itself failed: the program may not have run, or its result was lost."""

    code = "sandbox_failed"


class Runner(Protocol):
    """Runs programs, each in a fresh sandbox; nothing of it runs any more when `run` returns.

    Cancelling the call kills the program.
    """

    async def run(self, execution: Execution, listener: OutputListener | None = None) -> Outcome:
        """Run to completion; raises `SandboxFailure`."""
        ...
