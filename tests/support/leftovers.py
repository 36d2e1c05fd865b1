"""Ends what a test run leaves behind when pytest itself is killed.

A process beside pytest holds the other end of a pipe. When pytest is gone, however it ended, that
process kills every process that inherited the run's ID from it.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

RUN = "TEMPER_TEST_RUN"
"""Environment variable with the ID of the run, which processes of its tests inherit."""
SWEEPS = 50
SWEEP_SECONDS = 0.2


def watch_this_run() -> None:
    """Start the watcher, once for all processes of a run."""
    if RUN in os.environ:
        return
    os.environ[RUN] = secrets.token_hex(8)
    # pytest's end of the pipe closes with the last process of pytest itself: no child inherits it.
    reading, writing = os.pipe()
    watched = {name: value for name, value in os.environ.items() if name != RUN}
    subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, os.environ[RUN]],
        stdin=reading,
        env=watched,
        start_new_session=True,
    )
    os.close(reading)
    _kept.append(writing)


_kept: list[int] = []


def end_leftovers(run: str) -> int:
    """Kill the processes of a run until none is found; return how many were found at first."""
    found = first = _processes_of(run)
    for _ in range(SWEEPS):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(SWEEP_SECONDS)
        found = _processes_of(run)
        if not found:
            break
    return len(first)


def _processes_of(run: str) -> list[int]:
    mark = f"{RUN}={run}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_leftovers(sys.argv[1])
