"""Running one command of an installation: output to the log, no process outlives us."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

TICK_SECONDS = 0.2
GRACE_SECONDS = 5.0
# Another environment's modules must not leak into the one that is made.
NOT_INHERITED = (
    *("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER"),
    *("UV_TARGET", "UV_PREFIX", "UV_SYSTEM_PYTHON", "UV_PROJECT_ENVIRONMENT", "VIRTUAL_ENV"),
)


class CommandFailed(Exception):
    """A command ended with an error, or not in time; ``last_lines`` is its last output."""

    def __init__(self, message: str, last_lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.last_lines = tuple(last_lines)


def run_logged(
    command: Sequence[str],
    *,
    log: Path,
    lock: int,
    limit: float,
    tick: Callable[[], None],
    line: Callable[[str], None] | None = None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run ``command`` with its output appended to ``log``; raises `CommandFailed`.

    ``line`` is given every line of output, from a thread; ``tick`` is called several times a
    second. The command inherits ``lock`` and is killed after ``limit`` seconds. ``variables`` are
    added to its environment.
    """
    environment = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
    environment |= variables or {}
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**environment, "PYTHONUNBUFFERED": "1"},
        pass_fds=(lock,),
        start_new_session=True,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    assert process.stdout is not None  # noqa: S101 - it was asked for above
    last_lines: list[str] = []
    reader = threading.Thread(target=_copy, args=(process.stdout, log, line, last_lines))
    reader.start()
    deadline = time.monotonic() + limit
    try:
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise CommandFailed(f"did not end within {limit / 60:.0f} minutes", last_lines)
            tick()
            time.sleep(TICK_SECONDS)
    finally:
        _end(process)
        reader.join()
        process.stdout.close()
    if process.returncode != 0:
        raise CommandFailed(f"ended with code {process.returncode}", last_lines)


def _copy(
    source: IO[str], log: Path, line: Callable[[str], None] | None, last_lines: list[str]
) -> None:
    with log.open("a", encoding="utf-8") as file:
        for text in source:
            file.write(text)
            file.flush()
            if line is not None:
                line(text)
            last_lines.append(text.rstrip())
            del last_lines[:-50]


def _end(process: "subprocess.Popen[str]") -> None:
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    with suppress(ProcessLookupError):  # what ignores the first signal can outlive its parent
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
