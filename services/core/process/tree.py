"""Commands with a time limit, which end with every process that they started.

Only the standard library is imported here: runtimes and the sandbox use it.
"""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from services.core.process.watchdog import descendants

_END_SECONDS = 5.0
_LOOK_SECONDS = 0.01


def run_tree(
    command: Sequence[str],
    *,
    seconds: float,
    cwd: Path,
    environment: Mapping[str, str],
    given: bytes = b"",
) -> "subprocess.CompletedProcess[bytes]":
    """Run a command with ``given`` as its standard input and return its output and exit code.

    If it takes longer than ``seconds``, or this is interrupted, it is killed with all its
    descendants. Raises OSError and subprocess.TimeoutExpired.
    """
    with subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            out, err = process.communicate(given, timeout=seconds)
        except BaseException:
            kill_tree(process.pid)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def kill_tree(pid: int) -> None:
    """Kill a child of this process with all its descendants; returns once they do not run.

    They are stopped first, so that none starts another, or is adopted elsewhere, unseen. The child
    is left to be reaped.
    """
    stopped: set[int] = set()
    while fresh := {pid, *descendants(pid)} - stopped:
        _signal(fresh, signal.SIGSTOP)
        stopped |= fresh
    _signal(stopped, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while any(map(_runs, stopped)) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def _signal(processes: set[int], number: int) -> None:
    for pid in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] != b"Z"
    except OSError:
        return False
