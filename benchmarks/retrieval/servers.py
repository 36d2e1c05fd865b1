"""The servers that are compared, each started on a free port and ended with its block."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.sandbox.accounting import Processes, Usage
from benchmarks.sandbox.groups import Account, new_group

REPOSITORY = Path(__file__).parents[2]
RUNTIMES = Path(os.environ.get("TEMPER_RUNTIMES") or REPOSITORY / ".temper" / "runtimes")
START_SECONDS = 180.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.005


class ServerFailed(Exception):
    """A server ended, or did not become ready."""


@dataclass(frozen=True)
class Server:
    """A running server; ``first_answer`` is the seconds from its start to its first answer."""

    port: int
    usage: Usage
    first_answer: float


@contextlib.contextmanager
def our_service(indexes: Path, index: str, settings: Mapping[str, str]) -> Iterator[Server]:
    """The retrieval service with one default index, and the settings of the environment."""
    port = _free_port()
    command = [sys.executable, "-m", "services.retrieval", "--port", str(port)]
    environment = {
        "TEMPER_RUNTIMES": str(RUNTIMES),
        "TEMPER_RETRIEVAL_INDEXES": str(indexes),
        "TEMPER_RETRIEVAL_INDEX": index,
        **settings,
    }
    with running(command, port, environment) as server:
        yield server


@contextlib.contextmanager
def reference_server(index: Path, mode: str, encoding: str, python: Path) -> Iterator[Server]:
    """The yardstick over the same index, one request at a time."""
    port = _free_port()
    module = "benchmarks.retrieval.reference_server"
    command = with_packages(python, module, str(port), str(index), mode, encoding)
    with running(command, port, {}) as server:
        yield server


def with_packages(python: Path, module: str, *arguments: str) -> list[str]:
    """A command that runs a module with an interpreter, which finds our packages after its own."""
    start = (
        "import runpy, sys; sys.path.append(sys.argv[1]); del sys.argv[:2];"
        "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    )
    packages = sysconfig.get_paths()["purelib"]
    return [str(python), "-c", start, packages, module, *arguments]


@contextlib.contextmanager
def running(command: Sequence[str], port: int, settings: Mapping[str, str]) -> Iterator[Server]:
    """Start a server and wait for its first answer; ends the benchmark when there is none."""
    with contextlib.ExitStack() as stack:
        account = stack.enter_context(_account())
        log = stack.enter_context(tempfile.TemporaryFile())
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-"))
        begun = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env={**os.environ, "TEMPER_HOME": f"{scratch}/home", **settings, "TMPDIR": scratch},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        stack.callback(_end, process)
        # It has only begun to load its interpreter: nothing is started before it is counted.
        account.add(process.pid)
        try:
            _wait_for_answer(process, port)
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


def _wait_for_answer(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    answer = "nothing"
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=START_SECONDS) as http:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise ServerFailed(f"the server ended with {process.returncode}")
            with contextlib.suppress(httpx.TransportError):
                response = http.post("/retrieve", json={"queries": ["first"], "topk": 1})
                if response.status_code == 200:
                    return
                answer = f"{response.status_code} {json.dumps(response.text[:300])}"
            time.sleep(POLL_SECONDS)
    raise ServerFailed(f"no answer within {START_SECONDS:.0f} s, the last was {answer}")


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
