"""Real processes of the project, started for a test and ended with it."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import httpx

from tests.support.waiting import wait_for

REPOSITORY = Path(__file__).resolve().parents[2]
STOP_SECONDS = 90.0
_reserved: list[socket.socket] = []


def free_port() -> int:
    """A loopback port that no other process gets while this one lives.

    Nothing listens there, so connections are refused. Servers that reuse addresses, as ours, Redis
    and PostgreSQL do, can listen beside a socket that only holds the port.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    _reserved.append(holder)
    return int(holder.getsockname()[1])


class Process:
    """A process with its output in a file; ``end`` sends SIGTERM, ``kill`` SIGKILL."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        log: Path,
        launcher: Sequence[str] = (),
    ):
        self.log = log
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [*launcher, sys.executable, "-m", module, *arguments],
                cwd=REPOSITORY,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    def end(self) -> int:
        """Ask the process to end; return its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end on SIGTERM; see\n{self.tail()}") from None

    def kill(self) -> None:
        """SIGKILL, and wait."""
        self._process.kill()
        self._process.wait()

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:]


@contextlib.contextmanager
def running(
    module: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    launcher: Sequence[str] = (),
) -> Iterator[Process]:
    """A process for the duration of a block; ``launcher`` is a command that executes it."""
    process = Process(module, arguments, env, log, launcher)
    try:
        yield process
    finally:
        process.end()


@contextlib.contextmanager
def running_gateway(env: Mapping[str, str], log: Path) -> Iterator[str]:
    """A gateway on a free port; yields its address once it is ready."""
    with running_service("services.api", env, log) as (_, url):
        yield url


@contextlib.contextmanager
def running_service(
    module: str,
    env: Mapping[str, str],
    log: Path,
    launcher: Sequence[str] = (),
    arguments: Sequence[str] = (),
) -> Iterator[tuple[Process, str]]:
    """An HTTP service on a free port; yields its process and address once it is ready."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with running(module, ["--port", str(port), *arguments], env, log, launcher) as process:
        wait_for(lambda: is_ready(process, url), f"{module} is ready")
        yield process, url


def is_ready(process: Process, url: str) -> bool:
    """Whether a service says that it is ready; fails when its process has ended."""
    assert process.returncode is None, process.tail()
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False
