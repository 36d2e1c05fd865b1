"""The two servers under comparison, each running on a free port for its block."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence

import httpx

from benchmarks.serving.accounting import Usage
from benchmarks.serving.server import HOME, RUNTIMES, START_SECONDS, Server, free_port, running
from services.core.process.runtimes import find_runtime
from services.sandbox.languages.preparation import prepare

IDLE_SECONDS = 1.0


@contextlib.contextmanager
def our_service(launcher: Sequence[str] = (), **settings: str) -> Iterator[Server]:
    """Run the sandbox service, with ``settings`` added to the environment."""
    port = free_port()
    command = [*launcher, sys.executable, "-m", "services.sandbox", "--port", str(port)]
    prepared = HOME / "sandbox" / "prepared"
    prepare(prepared)  # before the first measurement, not beside it
    settings["TEMPER_SANDBOX_PREPARED"] = str(prepared)
    with running(command, port, settings, _readiness(port)) as server:
        _wait_until_idle(server.usage)
        yield server


@contextlib.contextmanager
def plain_server() -> Iterator[Server]:
    """Run the baseline, with the service's interpreter for Python programs."""
    port = free_port()
    python = find_runtime(RUNTIMES, "sandbox").python
    module = "benchmarks.sandbox.plain_server"
    command = [sys.executable, "-m", module, str(port), str(python)]
    with running(command, port, {}, _readiness(port)) as server:
        yield server


def _readiness(port: int) -> httpx.Request:
    return httpx.Request("GET", f"http://127.0.0.1:{port}/readyz")


def _wait_until_idle(usage: Usage) -> None:
    """Wait until a server is idle: some preparations continue after it is ready."""
    deadline = time.monotonic() + START_SECONDS
    earlier = usage.cpu()
    while time.monotonic() < deadline:
        time.sleep(IDLE_SECONDS)
        now = usage.cpu()
        if (now - earlier).total < 0.02 * IDLE_SECONDS:
            return
        earlier = now
