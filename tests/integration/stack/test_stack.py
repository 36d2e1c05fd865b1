"""The local stack: gateway and workers as processes of ``temper up``."""

import hashlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from temper.client import ApiError, Temper, Unreachable
from temper.stack.processes import ProcessIdentity
from temper.stack.services import WORKERS, Service
from temper.stack.state import StackState
from tests.support.stack import DEADLINE, Home, all_processes_ended, home_in, processes
from tests.support.waiting import wait_for


def workers_registered(client: Temper, expected: dict[Service, ProcessIdentity]) -> bool:
    """Whether the gateway is ready and all these worker processes have registered."""
    try:
        if not client.is_ready():
            return False
        known = {worker.id.rpartition(":")[2] for worker in client.workers()}
    except Unreachable:
        return False
    return all(str(expected[worker].pid) in known for worker in WORKERS)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A home configured with an external retrieval service, as starting ours is slow."""
    with home_in(tmp_path / "home") as home:
        home.variables["TEMPER_RETRIEVAL_URL"] = "http://127.0.0.1:1"
        yield home


def test_up_starts_all_services_and_a_signal_stops_them(home: Home) -> None:
    process, state = home.up()
    with Temper(state.url) as client:
        assert client.is_ready()
        assert len(client.workers()) == len(WORKERS)

    second = home.run("up")
    assert second.returncode == 1
    assert f"already ready at {state.url}" in second.stderr

    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE)

    assert process.returncode == 0
    assert f"ready at {state.url}" in out
    assert all_processes_ended(state)
    assert home.file.read() is None


@pytest.mark.drill
def test_a_crashed_service_is_restarted_and_the_others_keep_running(home: Home) -> None:
    process, started = home.up()
    states = [started]
    for victim in (Service.EVALUATOR, Service.API):
        former = processes(states[-1])
        os.kill(former[victim].pid, signal.SIGKILL)
        states.append(restarted(home, process, former, victim))
        now = processes(states[-1])
        assert all(now[name] == former[name] for name in former if name is not victim)
        with Temper(states[-1].url) as client:
            wait_for(partial(workers_registered, client, now), "all are signed on", DEADLINE)

    process.terminate()
    _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    last = processes(states[-1])
    for victim in (Service.EVALUATOR, Service.API):
        assert f"{victim} exited with signal 9" in said
        assert f"{victim} was restarted as process {last[victim].pid}" in said
    assert "ready." in said or "listening on" in said  # a line of the log
    assert all(all_processes_ended(state) for state in states)


def restarted(
    home: Home,
    stack: "subprocess.Popen[str]",
    former: dict[Service, ProcessIdentity],
    victim: Service,
) -> StackState:
    """The state of the stack once the victim runs again."""

    def found() -> StackState | None:
        state = home.ready_state(stack)
        return state if state and processes(state)[victim] != former[victim] else None

    return wait_for(found, f"{victim} runs again", DEADLINE)


@pytest.mark.drill
def test_a_stack_with_keys_starts_without_a_client_key(home: Home) -> None:
    home.variables["TEMPER_API_KEY_HASHES"] = hashlib.sha256(b"the user's").hexdigest()
    process, state = home.up()

    with Temper(state.url, "the user's") as client:
        assert len(client.workers()) == len(WORKERS)
    with Temper(state.url) as client, pytest.raises(ApiError, match="send an API key"):
        client.workers()
    process.terminate()
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0


@pytest.mark.drill
def test_services_left_by_a_killed_stack_are_stopped_by_the_next(home: Home) -> None:
    process, former = home.up()
    process.kill()
    process.wait(DEADLINE)
    assert {name for name, each in processes(former).items() if each.is_alive} >= {"api", *WORKERS}

    process, state = home.up()

    assert all_processes_ended(former)
    process.terminate()
    _, said = process.communicate(timeout=DEADLINE)
    left = ", ".join(["api", *WORKERS])
    assert f"stopped services left by a killed stack: {left}" in " ".join(said.split())
    assert all_processes_ended(state)


@pytest.mark.drill
def test_a_detached_stack_serves_commands_until_down(home: Home) -> None:
    started = home.run("up", "--detach", "--port", "0", "--json")
    assert started.returncode == 0, started.stderr
    state = StackState.model_validate_json(started.stdout)

    listed = home.run("ps", "--json")  # on a port that only the state file knows
    assert json.loads(listed.stdout)["data"] == []
    again = home.run("up", "--detach", "--json")
    assert StackState.model_validate_json(again.stdout) == state

    ended = home.run("down", "--json")
    assert set(json.loads(ended.stdout)["ended"]) >= {"api", *WORKERS}
    assert all_processes_ended(state)
    assert json.loads(home.run("down", "--json").stdout) == {"ended": []}


@pytest.mark.drill
def test_a_stack_that_cannot_start_explains_why(home: Home) -> None:
    home.path.mkdir()
    (home.path / "temper.db").write_text("not a database" * 100)

    started = home.run("up", "--detach", "--port", "0")

    assert started.returncode == 1
    assert "did not start" in started.stderr
    assert "not a database" in started.stderr
    assert home.file.read() is None


@pytest.mark.drill
@pytest.mark.parametrize("option", ["--port", "--sandbox-port", "--retrieval-port"])
def test_a_port_in_use_is_reported_before_anything_starts(home: Home, option: str) -> None:
    del home.variables["TEMPER_RETRIEVAL_URL"]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        ports = {"--port": "0", "--sandbox-port": "0", "--retrieval-port": "0"}
        ports[option] = str(port)
        started = home.run("up", *(word for pair in ports.items() for word in pair))

    assert started.returncode == 1
    assert f"port {port} is in use: choose another with {option}" in " ".join(
        started.stderr.split()
    )
    assert not (home.path / "logs").exists()
