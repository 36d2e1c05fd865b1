"""The local stack for real: gateway, trainer and evaluator as processes of ``temper up``."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from temper.client import ApiError, Temper, Unreachable
from temper.stack.processes import ProcessIdentity, group_members
from temper.stack.services import WORKERS, Service
from temper.stack.state import StackFile, StackState, StackStatus

DEADLINE = 120.0


class Home:
    """A home folder, and the commands run on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = StackFile(path)
        self.started: list[subprocess.Popen[str]] = []
        self.variables: dict[str, str] = {}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "temper", *arguments]

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if "TEMPER" not in name}
        own = {"TEMPER_HOME": str(self.path), "TEMPER_GRACE_SECONDS": "5"}
        return {**kept, **own, **self.variables}

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            self.command(*arguments),
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            check=False,
        )

    def up(self) -> tuple["subprocess.Popen[str]", StackState]:
        """Start a stack in the foreground and wait until it is ready."""
        process = self.start("up", "--port", "0", "--timeout", str(DEADLINE))
        state = until(lambda: self.ready_state(process))
        return process, state

    def ready_state(self, process: "subprocess.Popen[str]") -> StackState | None:
        assert process.poll() is None, process.communicate()
        state = self.file.running()
        return state if state and state.status is StackStatus.READY else None


def until(get: Callable[[], StackState | None]) -> StackState:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if (value := get()) is not None:
            return value
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


def processes(state: StackState) -> dict[Service, ProcessIdentity]:
    return {service.name: service.process for service in state.services}


def signed_on(client: Temper, expected: dict[Service, ProcessIdentity]) -> bool:
    """Whether the gateway is ready and every worker process of these has signed on at it."""
    try:
        if not client.is_ready():
            return False
        known = {worker.id.rpartition(":")[2] for worker in client.workers()}
    except Unreachable:
        return False
    return all(str(expected[worker].pid) in known for worker in WORKERS)


def nothing_is_left(state: StackState) -> bool:
    return not any(group_members(process.pid) for process in processes(state).values())


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    home.run("down")
    for process in home.started:
        process.kill()
        process.communicate()


def test_up_starts_everything_and_a_signal_ends_it(home: Home) -> None:
    process, state = home.up()
    with Temper(state.url) as client:
        assert client.is_ready()
        assert len(client.workers()) == 2

    second = home.run("up")
    assert second.returncode == 1
    assert f"already ready at {state.url}" in second.stderr

    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=DEADLINE)

    assert process.returncode == 0
    assert f"ready at {state.url}" in out
    assert nothing_is_left(state)
    assert home.file.read() is None


@pytest.mark.parametrize("victim", [Service.EVALUATOR, Service.API])
def test_a_service_that_dies_is_started_again_and_the_others_go_on(
    home: Home, victim: Service
) -> None:
    process, before = home.up()
    former = processes(before)

    os.kill(former[victim].pid, signal.SIGKILL)

    def with_another() -> StackState | None:
        state = home.ready_state(process)
        return state if state and processes(state)[victim] != former[victim] else None

    state = until(with_another)
    now = processes(state)
    assert all(now[name] == former[name] for name in Service if name is not victim)
    with Temper(state.url) as client:
        until(lambda: state if signed_on(client, now) else None)

    process.terminate()
    _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 0
    assert f"{victim} ended with signal 9" in said
    assert "ready." in said or "running on" in said  # a line of its log
    assert f"{victim} runs again as process {now[victim].pid}" in said
    assert nothing_is_left(before)
    assert nothing_is_left(state)


@pytest.mark.long  # the waits between the restarts add up to 31 seconds
def test_a_service_that_dies_again_and_again_ends_the_stack(home: Home) -> None:
    process, state = home.up()
    killed: set[int] = set()
    deadline = time.monotonic() + DEADLINE

    while process.poll() is None and time.monotonic() < deadline:
        last = home.file.running()
        trainer = processes(last).get(Service.TRAINER) if last else None
        if trainer is not None and trainer.pid not in killed and trainer.is_alive:
            killed.add(trainer.pid)
            os.kill(trainer.pid, signal.SIGKILL)
        time.sleep(0.1)

    _, said = process.communicate(timeout=DEADLINE)
    assert process.returncode == 1
    assert "temper: error: trainer ended with signal 9" in said
    assert "after 5 restarts within 300 s" in said
    assert len(killed) == 6
    assert nothing_is_left(state)
    assert home.file.read() is None


def test_a_stack_whose_gateway_wants_keys_starts_without_one(home: Home) -> None:
    home.variables["TEMPER_API_KEY_HASHES"] = hashlib.sha256(b"the user's").hexdigest()
    process, state = home.up()

    with Temper(state.url, "the user's") as client:
        assert len(client.workers()) == 2
    with Temper(state.url) as client, pytest.raises(ApiError, match="send an API key"):
        client.workers()
    process.terminate()
    process.communicate(timeout=DEADLINE)
    assert process.returncode == 0


def test_what_a_killed_stack_left_is_ended_by_the_next(home: Home) -> None:
    process, former = home.up()
    process.kill()
    process.wait(DEADLINE)
    assert all(identity.is_alive for identity in processes(former).values())

    process, state = home.up()

    assert nothing_is_left(former)
    process.terminate()
    _, said = process.communicate(timeout=DEADLINE)
    assert "ended what a killed stack had left: api, trainer, evaluator" in said
    assert nothing_is_left(state)


def test_a_detached_stack_is_found_by_every_command_until_down(home: Home) -> None:
    started = home.run("up", "--detach", "--port", "0", "--json")
    assert started.returncode == 0, started.stderr
    state = StackState.model_validate_json(started.stdout)

    listed = home.run("ps", "--json")  # on a port that only the state file knows
    assert json.loads(listed.stdout)["data"] == []
    again = home.run("up", "--detach", "--json")
    assert StackState.model_validate_json(again.stdout) == state

    ended = home.run("down", "--json")
    assert set(json.loads(ended.stdout)["ended"]) == {"api", "trainer", "evaluator"}
    assert nothing_is_left(state)
    assert json.loads(home.run("down", "--json").stdout) == {"ended": []}


def test_a_stack_that_cannot_start_says_why(home: Home) -> None:
    home.path.mkdir()
    (home.path / "temper.db").write_text("this is no database" * 100)

    started = home.run("up", "--detach", "--port", "0")

    assert started.returncode == 1
    assert "did not start" in started.stderr
    assert "not a database" in started.stderr
    assert home.file.read() is None


def test_a_taken_port_is_named_before_anything_starts(home: Home) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        started = home.run("up", "--port", str(port))

    assert started.returncode == 1
    assert f"port {port} is taken" in started.stderr
