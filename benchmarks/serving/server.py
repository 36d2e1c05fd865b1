"""A server that a benchmark runs on a free port for a block."""

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.serving.accounting import Processes, Usage
from benchmarks.serving.groups import Account, new_group

REPOSITORY = Path(__file__).parents[2]
HOME = REPOSITORY / ".temper"
RUNTIMES = Path(os.environ.get("TEMPER_RUNTIMES") or HOME / "runtimes")
START_SECONDS = 180.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.005


class ServerFailed(Exception):
    """A server exited, or did not respond."""


@dataclass(frozen=True)
class Server:
    """A running server; ``start_seconds`` is the time to its first response."""

    port: int
    usage: Usage
    start_seconds: float


@contextlib.contextmanager
def running(
    command: Sequence[str], port: int, settings: Mapping[str, str], first: httpx.Request
) -> Iterator[Server]:
    """Start a server and wait until it answers the request ``first`` with 200.

    It has its own home and temporary folder, and ``settings`` added to the environment. Exits the
    benchmark without a response.
    """
    with contextlib.ExitStack() as stack:
        account = stack.enter_context(_account())
        log = stack.enter_context(tempfile.TemporaryFile())
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-"))
        own = {"TEMPER_HOME": f"{scratch}/home", "TEMPER_RUNTIMES": str(RUNTIMES)}
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, **own, **settings, "TMPDIR": scratch},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        stack.callback(_end, process)
        # The interpreter is still loading, so all that the server starts is accounted for.
        account.add(process.pid)
        try:
            _wait_for_answer(process, first)
        except ServerFailed as error:
            log.seek(0)
            raise SystemExit(f"{error}:\n{log.read()[-3000:].decode(errors='replace')}") from None
        yield Server(port, Usage(process.pid, account), time.perf_counter() - begun)


def free_port() -> int:
    """Return a loopback port that was just free."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


@contextlib.contextmanager
def _account() -> Iterator[Account]:
    with contextlib.ExitStack() as stack:
        account: Account = Processes()
        with contextlib.suppress(OSError):
            account = stack.enter_context(new_group())
        yield account


def _wait_for_answer(process: subprocess.Popen[bytes], first: httpx.Request) -> None:
    deadline = time.monotonic() + START_SECONDS
    answer = "nothing"
    with httpx.Client(timeout=START_SECONDS) as http:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise ServerFailed(f"the server ended with {process.returncode}")
            with contextlib.suppress(httpx.TransportError):
                response = http.send(first)
                if response.status_code == 200:
                    return
                answer = f"{response.status_code} {response.text[:300]!r}"
            time.sleep(POLL_SECONDS)
    raise ServerFailed(f"no answer within {START_SECONDS:.0f} s, the last was {answer}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
