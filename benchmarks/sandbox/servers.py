"""The two servers that are compared, each started on a free port and ended with its block."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.sandbox.accounting import Processes, Usage
from benchmarks.sandbox.groups import Account, new_group
from services.common.process.runtimes import find_runtime

REPOSITORY = Path(__file__).parents[2]
RUNTIMES = Path(os.environ.get("TEMPER_RUNTIMES") or REPOSITORY / ".temper" / "runtimes")
START_SECONDS = 120.0
STOP_SECONDS = 30.0
IDLE_SECONDS = 1.0


class ServerFailed(Exception):
    """A server ended, or did not become ready."""


@dataclass(frozen=True)
class Server:
    """A running server; ``start_seconds`` is what it took until it was ready."""

    port: int
    usage: Usage
    start_seconds: float


@contextlib.contextmanager
def our_service() -> Iterator[Server]:
    """The sandbox service, with the settings of the environment."""
    port = _free_port()
    command = [sys.executable, "-m", "services.sandbox", "--port", str(port)]
    with _running(command, port, {"TEMPER_RUNTIMES": str(RUNTIMES)}) as server:
        _wait_until_idle(server.usage)
        yield server


@contextlib.contextmanager
def plain_server() -> Iterator[Server]:
    """The yardstick, with the service's interpreter for Python programs."""
    port = _free_port()
    python = find_runtime(RUNTIMES, "sandbox").python
    module = "benchmarks.sandbox.plain_server"
    command = [sys.executable, "-m", module, str(port), str(python)]
    with _running(command, port, {}) as server:
        yield server


@contextlib.contextmanager
def _running(command: Sequence[str], port: int, settings: Mapping[str, str]) -> Iterator[Server]:
    with contextlib.ExitStack() as stack:
        account = stack.enter_context(_account())
        log = stack.enter_context(tempfile.TemporaryFile())
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-"))
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, **settings, "TMPDIR": scratch},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        stack.callback(_end, process)
        # It has only begun to load its interpreter: nothing is started before it is counted.
        account.add(process.pid)
        try:
            _wait_until_ready(process, port)
        except ServerFailed as error:
            log.seek(0)
            raise SystemExit(f"{error}:\n{log.read()[-3000:].decode(errors='replace')}") from None
        yield Server(port, Usage(process.pid, account), time.perf_counter() - begun)


@contextlib.contextmanager
def _account() -> Iterator[Account]:
    with contextlib.ExitStack() as stack:
        account: Account = Processes()
        with contextlib.suppress(OSError):
            account = stack.enter_context(new_group())
        yield account


def _wait_until_ready(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerFailed(f"the server ended with {process.returncode}")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=5).status_code == 200:
                return
        time.sleep(0.05)
    raise ServerFailed(f"the server was not ready after {START_SECONDS:.0f} s")


def _wait_until_idle(usage: Usage) -> None:
    """Wait until a server has made all its preparations: some go on when it is ready."""
    deadline = time.monotonic() + START_SECONDS
    earlier = usage.cpu()
    while time.monotonic() < deadline:
        time.sleep(IDLE_SECONDS)
        now = usage.cpu()
        if (now - earlier).total < 0.02 * IDLE_SECONDS:
            return
        earlier = now


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
