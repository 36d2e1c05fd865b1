"""Slots, disconnecting clients, and shutdown."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.sandbox import Sandbox, running_sandbox
from tests.support.waiting import wait_for

SLEEP = "import time; time.sleep(1000)"


@pytest.fixture(scope="module")
def single_slot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A service that runs one program at a time; every test leaves it idle."""
    folder = tmp_path_factory.mktemp("one-place")
    with running_sandbox(folder, TEMPER_SANDBOX_CONCURRENCY="1") as sandbox:
        yield sandbox


def gauge(sandbox: Sandbox, name: str) -> float:
    lines = sandbox.http.get("/metrics").text.splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def running(sandbox: Sandbox) -> float:
    return gauge(sandbox, "temper_sandbox_running")


def waiting(sandbox: Sandbox) -> float:
    return gauge(sandbox, "temper_sandbox_queue_length")


def ask(sandbox: Sandbox, path: str, code: str) -> socket.socket:
    """Send a request and read nothing of the answer."""
    host, port = sandbox.url.removeprefix("http://").split(":")
    # A request waits the longer for its turn, the more time its program may be compiled.
    limits = {"run_timeout": 300, "compile_timeout": 300}
    body = {"language": "python", "code": code, **limits}
    content = json.dumps(body | {"cases": [{}]}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n"
    client = socket.create_connection((host, int(port)))
    client.sendall(head.encode() + content)
    return client


@pytest.mark.parametrize("path", ["/run_code", "/v1/run_code/stream", "/v1/run_cases"])
def test_a_disconnect_kills_the_program_and_frees_its_slot(single_slot: Sandbox, path: str) -> None:
    with ask(single_slot, path, SLEEP), ask(single_slot, path, SLEEP):
        wait_for(lambda: waiting(single_slot) == 1, "one runs and one waits")
        assert running(single_slot) == 1

    wait_for(lambda: (running(single_slot), waiting(single_slot)) == (0, 0), "both are gone")
    assert single_slot.output("print(1)") == "1\n"


def test_a_disconnected_client_leaves_the_queue(single_slot: Sandbox) -> None:
    with ask(single_slot, "/run_code", SLEEP):
        wait_for(lambda: running(single_slot) == 1, "one runs")
        for path in ("/run_code", "/v1/run_code/stream", "/v1/run_cases"):
            with ask(single_slot, path, SLEEP):
                wait_for(lambda: waiting(single_slot) == 1, "another waits")
            wait_for(lambda: waiting(single_slot) == 0, "it has left")
    wait_for(lambda: running(single_slot) == 0, "all are gone")


def test_an_overloaded_service_responds_504_with_retry_after(tmp_path: Path) -> None:
    settings = {"TEMPER_SANDBOX_CONCURRENCY": "1", "TEMPER_SANDBOX_QUEUE_SECONDS": "0.5"}
    with (
        running_sandbox(tmp_path, **settings) as sandbox,
        ask(sandbox, "/run_code", SLEEP),
    ):
        wait_for(lambda: running(sandbox) == 1, "one runs")
        body = {"language": "python", "code": "1", "cases": [{}]}
        for path in ("/run_code", "/v1/run_code/stream", "/v1/run_cases"):
            answer = sandbox.http.post(path, json=body)
            assert answer.status_code == 504
            assert int(answer.headers["retry-after"]) >= 1
            assert answer.json()["error"]["code"] == "queue_full"


def test_a_burst_of_short_programs_is_served_completely(sandbox: Sandbox) -> None:
    limits = {"run_timeout": 60, "compile_timeout": 300}
    body = {"language": "python", "code": "print(6 * 7)", **limits}
    begun = threading.Barrier(64)

    def one(_: int) -> str:
        with httpx.Client(base_url=sandbox.url, timeout=300) as client:
            begun.wait(120)
            answers = [client.post("/run_code", json=body).json() for _ in range(4)]
        return "".join(answer["run_result"]["stdout"] for answer in answers)

    with ThreadPoolExecutor(64) as pool:
        assert set(pool.map(one, range(64))) == {"42\n" * 4}


def test_the_service_is_ready_while_all_slots_are_taken(single_slot: Sandbox) -> None:
    with ask(single_slot, "/run_code", SLEEP):
        wait_for(lambda: running(single_slot) == 1, "one runs")
        for path in ("/readyz", "/healthz"):
            assert single_slot.http.get(path).status_code == 200
    wait_for(lambda: running(single_slot) == 0, "it is gone")


def test_requests_over_the_total_byte_limit_are_rejected(tmp_path: Path) -> None:
    settings = {"TEMPER_SANDBOX_CONCURRENCY": "1", "TEMPER_SANDBOX_HELD_BYTES": str(3 << 20)}
    with running_sandbox(tmp_path, **settings) as sandbox:
        with ask(sandbox, "/run_code", f"{SLEEP} #{'x' * (2 << 20)}"):
            wait_for(lambda: running(sandbox) == 1, "a large one runs")
            large = {"language": "python", "code": "#" * (2 << 20)}
            with contextlib.closing(sandbox.http.post("/run_code", json=large)) as answer:
                assert answer.status_code == 504
                assert answer.json()["error"]["code"] == "too_busy"
        wait_for(lambda: running(sandbox) == 0, "it is gone")
        assert sandbox.run("#" * (2 << 20))["status"] == "Success"


def test_shutdown_kills_programs_and_responds_with_retry_after(tmp_path: Path) -> None:
    paths = ("/run_code", "/v1/run_code/stream", "/v1/run_cases")
    settings = {"TEMPER_SANDBOX_CONCURRENCY": "3"}
    with running_sandbox(tmp_path, **settings) as sandbox, contextlib.ExitStack() as stack:
        inside = {path: stack.enter_context(ask(sandbox, path, SLEEP)) for path in paths}
        wait_for(lambda: running(sandbox) == 3, "all run")
        outside = {path: stack.enter_context(ask(sandbox, path, SLEEP)) for path in paths}
        wait_for(lambda: waiting(sandbox) == 3, "more wait")

        assert sandbox.process.end() == 0

        began = inside.pop("/v1/run_code/stream")
        assert began.recv(100).startswith(b"HTTP/1.1 200 ")
        for client in (*inside.values(), *outside.values()):
            assert client.recv(100).startswith(b"HTTP/1.1 504 ")
        assert "Traceback" not in sandbox.process.tail()
