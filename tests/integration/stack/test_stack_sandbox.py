"""The sandbox of a local stack: reached through the gateway, restarted, and optional."""

import hashlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from temper.client import Temper
from temper.stack.services import WORKERS, Service
from temper.stack.state import StackState
from tests.support.runtimes import FOLDER, installed_runtime
from tests.support.stack import DEADLINE, Home, all_processes_ended, home_in, processes
from tests.support.waiting import wait_for

PROGRAM = {"language": "python", "code": "print(1 + 1)"}
KEY = "the user's"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_in(tmp_path / "home") as home:
        home.variables["TEMPER_RETRIEVAL_URL"] = "http://127.0.0.1:1"
        yield home


@pytest.fixture
def with_runtime(home: Home) -> Home:
    """A home with the sandbox's interpreter."""
    installed_runtime("sandbox")
    home.variables["TEMPER_RUNTIMES"] = str(FOLDER)
    return home


def run_code(url: str, key: str | None = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.post(f"{url}/run_code", json=PROGRAM, headers=headers, timeout=DEADLINE)


def test_the_stack_runs_without_a_sandbox_that_cannot_start(home: Home) -> None:
    process, state = home.up()

    with Temper(state.url) as client:
        assert len(client.workers()) == len(WORKERS)
    assert run_code(state.url).status_code == 503
    (failed,) = state.disturbed
    assert failed.name is Service.SANDBOX
    reason = failed.condition.reason
    assert reason is not None
    assert "runtime 'sandbox' is not installed" in reason
    ready = httpx.get(f"{state.url}/readyz", timeout=DEADLINE)
    assert ready.status_code == 200
    assert ready.json()["degraded"] == {"sandbox": "failed (exits: 1)"}
    assert reason in " ".join(home.run("ps").stderr.split())
    process.terminate()
    _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert f"without the sandbox: {reason}" in " ".join(said.split())


def test_programs_run_through_a_gateway_with_keys(with_runtime: Home) -> None:
    home = with_runtime
    home.variables["TEMPER_API_KEY_HASHES"] = hashlib.sha256(KEY.encode()).hexdigest()
    process, state = home.up()

    answer = run_code(state.url, KEY)
    assert answer.status_code == 200, answer.text
    assert answer.json()["run_result"]["stdout"] == "2\n"
    assert run_code(state.url).status_code == 401
    (url,) = [service.url for service in state.services if service.name is Service.SANDBOX]
    assert url is not None
    assert run_code(url).status_code == 401
    assert run_code(url, KEY).status_code == 200

    process.terminate()
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert all_processes_ended(state)


def test_a_crashed_sandbox_is_restarted_on_its_port(with_runtime: Home) -> None:
    process, state = with_runtime.up()
    former = processes(state)[Service.SANDBOX]

    os.kill(former.pid, signal.SIGKILL)

    def restarted_state() -> StackState | None:
        now = with_runtime.ready_state(process)
        return now if now and processes(now)[Service.SANDBOX] != former else None

    now = wait_for(restarted_state, "it runs again", DEADLINE)
    wait_for(lambda: run_code(state.url).status_code == 200, "programs run again", DEADLINE)
    process.terminate()
    process.communicate(timeout=DEADLINE)
    assert all_processes_ended(state)
    assert all_processes_ended(now)
