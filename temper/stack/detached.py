"""Starting a stack in the background, and stopping the stack of a home folder."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from temper.stack.errors import AlreadyRunning, NotReady, StackError
from temper.stack.logs import last_lines
from temper.stack.processes import KILL_SECONDS, ProcessIdentity
from temper.stack.services import PORT_OPTIONS, Service
from temper.stack.state import StackFile, StackLock, StackState, StackStatus
from temper.stack.supervisor import already_running, end_leftovers, longest_shutdown

POLL_SECONDS = 0.1


def start_detached(
    home: Path,
    ports: Mapping[Service, int | None],
    timeout: float,
    grace_seconds: float,
    stop: threading.Event,
    variables: Mapping[str, str] | None = None,
) -> StackState | None:
    """Start ``temper up`` in a new session and return its state once it is ready.

    ``variables`` are added to the environment of its services. A port of None is the service's
    default. If ``stop`` is set first, stops the stack and returns None. Raises `StackError` with
    the last lines of ``logs/up.log`` if the stack exits early.
    """
    log = home / "logs" / "up.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    options = [f"{PORT_OPTIONS[name]}={port}" for name, port in ports.items() if port is not None]
    with open(log, "wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "temper", "up", *options, f"--timeout={timeout}"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(variables or {}), "TEMPER_HOME": str(home)},
            start_new_session=True,
        )
    state = None
    try:
        deadline = time.monotonic() + timeout + longest_shutdown(grace_seconds)
        state = _when_ready(child, StackFile(home), log, deadline, stop)
    finally:
        if state is None:
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(longest_shutdown(grace_seconds))
    return state


def _when_ready(
    child: "subprocess.Popen[bytes]",
    file: StackFile,
    log: Path,
    deadline: float,
    stop: threading.Event,
) -> StackState | None:
    while not stop.wait(POLL_SECONDS):
        if child.poll() is not None:
            raise StackError(f"the stack did not start; see {log}", last_lines(log))
        state = file.running()
        if state is not None and state.status is StackStatus.READY:
            return state
        if time.monotonic() > deadline:
            raise NotReady(f"the stack did not become ready; see {log}", last_lines(log))
    return None


def end_stack(home: Path, grace_seconds: float) -> list[str]:
    """Stop the stack of a home folder, or what a killed one left; return the stopped services.

    Raises `StillRunning` if one of them cannot be killed.
    """
    file = StackFile(home)
    running = file.running()
    if running is not None:
        _end_supervisor(running.supervisor, longest_shutdown(grace_seconds))
    with StackLock(home) as lock:
        if not lock.acquire():
            raise AlreadyRunning(already_running(file.running()))
        left = end_leftovers(file, grace_seconds)
    return [service.name.value for service in running.services] if running else left


def _end_supervisor(supervisor: ProcessIdentity, seconds: float) -> None:
    """Terminate a supervisor, which stops its services; kill it if it does not exit in time."""
    for number, timeout in ((signal.SIGTERM, seconds), (signal.SIGKILL, KILL_SECONDS)):
        if not supervisor.is_alive:
            return
        with suppress(ProcessLookupError):
            os.kill(supervisor.pid, number)
        deadline = time.monotonic() + timeout
        while supervisor.is_alive and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
