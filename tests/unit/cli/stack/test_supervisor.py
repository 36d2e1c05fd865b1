"""The supervisor of a local stack, with stubs in place of the services and the gateway."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from services.contracts.stack import ServiceStatus
from temper.client import Temper
from temper.stack import child as children
from temper.stack import supervisor
from temper.stack.addresses import LOOPBACK, any_free
from temper.stack.child import Child, Event
from temper.stack.errors import ServiceDied, StillRunning
from temper.stack.processes import ProcessIdentity, end_group
from temper.stack.services import WORKERS, Address, Service
from temper.stack.state import RunningService, StackFile, StackState
from temper.stack.supervisor import Stack, end_leftovers
from tests.support.waiting import wait_for

LIVES = "exec sleep 600"
DIES = "echo out of luck; exit 3"
NO_RUNTIME = "echo runtime is missing; exit 2"
DEADLINE = 60.0


class Stubs:
    """What each service runs instead of itself, and what the supervisor reported."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.grace_seconds = 0.2
        self.programs = dict.fromkeys(Service, LIVES)
        self.reported: list[Event] = []
        self.stop = threading.Event()

    def command(self, service: Service, _arguments: list[str]) -> list[str]:
        return ["/bin/sh", "-c", self.programs[service]]

    def stack(self) -> Stack:
        tools = (Service.API, Service.SANDBOX, Service.RETRIEVAL)
        addresses = {each: Address(LOOPBACK, any_free()) for each in tools}
        return Stack(self.home, addresses, cast(Temper, SimpleNamespace()), self.grace_seconds, {})

    def watch(self, stack: Stack, until: Callable[[StackState], bool]) -> StackState:
        """Supervise until the recorded state is as expected; return it."""
        watcher = threading.Thread(target=stack.watch, args=(self.stop, self.reported.append))
        watcher.start()
        try:
            return wait_for(lambda: self._state(until), "the state is recorded", DEADLINE)
        finally:
            self.stop.set()
            watcher.join(DEADLINE)

    def _state(self, until: Callable[[StackState], bool]) -> StackState | None:
        state = StackFile(self.home).read()
        return state if state is not None and until(state) else None


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubs]:
    stubs = Stubs(tmp_path)
    monkeypatch.setattr(supervisor, "command", stubs.command)
    monkeypatch.setattr(supervisor, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "READY_SECONDS", 0.01)
    monkeypatch.setattr(supervisor, "SHUTDOWN_MARGIN", 0.0)
    monkeypatch.setattr(children, "LONGEST_DELAY_SECONDS", 0.02)
    yield stubs
    end_leftovers(StackFile(tmp_path), 0.0)


def service(state: StackState, name: Service) -> RunningService:
    (found,) = [each for each in state.services if each.name is name]
    return found


def all_running(_client: Temper, services: list[RunningService]) -> list[str]:
    return [each.name.value for each in services if not each.process.is_alive]


@pytest.mark.parametrize("victim", [Service.TRAINER, Service.SANDBOX, Service.API])
def test_the_stack_outlives_a_service_that_keeps_exiting(stubs: Stubs, victim: Service) -> None:
    with stubs.stack() as stack:
        stack.start()
        before = stack.state.model_copy(deep=True)
        stubs.programs[victim] = DIES
        stack._children[
            [each.name for each in before.services].index(victim)
        ]._command = stubs.command(victim, [])
        os.killpg(service(before, victim).process.pid, signal.SIGKILL)

        state = stubs.watch(stack, lambda now: service(now, victim).condition.exits >= 10)

        failed = service(state, victim).condition
        assert failed.status in {ServiceStatus.FAILED, ServiceStatus.RECOVERING}
        assert failed.last_lines[-1] == "out of luck"
        for other in state.services:
            if other.name is not victim:
                assert other.process == service(before, other.name).process
                assert other.process.is_alive
    # While it is failed, attempts that end in the same way are not reported again.
    ends = [each for each in stubs.reported if each.service.condition.retry_at is not None]
    assert [each.service.condition.exits for each in ends] == [1, 2, 3, 4, 5, 6]
    assert StackFile(stubs.home).read() is None


def test_a_stack_starts_without_services_that_cannot_run(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "not_ready", all_running)
    stubs.programs |= {Service.RETRIEVAL: DIES, Service.SANDBOX: NO_RUNTIME, WORKERS[0]: DIES}
    with stubs.stack() as stack:
        stack.start()
        assert stack.wait_ready(stubs.stop, DEADLINE, stubs.reported.append)
        disturbed = {each.service.name: each.service.condition for each in stubs.reported}
    assert set(disturbed) == {Service.RETRIEVAL, Service.SANDBOX, WORKERS[0]}
    assert disturbed[Service.SANDBOX].reason == "runtime is missing"


def test_a_stack_whose_gateway_exits_does_not_start(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "not_ready", lambda *_: ["api"])
    stubs.programs[Service.API] = DIES
    with stubs.stack() as stack:
        stack.start()
        with pytest.raises(ServiceDied, match="api exited with exit code 3") as death:
            stack.wait_ready(stubs.stop, DEADLINE, stubs.reported.append)
    assert death.value.last_lines == ["out of luck"]


def test_a_process_that_cannot_be_killed_is_named_and_left_to_the_next_stop(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    reap = Child.reap

    def stuck(child: Child, seconds: float) -> bool:
        return child.running.name is not Service.TRAINER and reap(child, seconds)

    monkeypatch.setattr(Child, "reap", stuck)
    with (
        pytest.raises(StillRunning, match=r"cannot kill trainer \(process \d+\)"),
        stubs.stack() as stack,
    ):
        stack.start()

    left = StackFile(stubs.home).read()
    assert left is not None
    assert service(left, Service.TRAINER).process == service(stack.state, Service.TRAINER).process


@pytest.mark.parametrize("killed", [False, True])
def test_workers_have_time_to_save_and_then_to_end(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    given: list[float] = []

    def noted(leader: ProcessIdentity, seconds: float) -> bool:
        given.append(seconds)
        return end_group(leader, DEADLINE)

    monkeypatch.setattr(supervisor, "end_group", noted)
    with stubs.stack() as stack:
        stack.start()
        if killed:
            end_leftovers(StackFile(stubs.home), stubs.grace_seconds)

    assert len(given) >= len(WORKERS)
    assert min(given) >= 2 * stubs.grace_seconds


def test_a_full_disk_does_not_end_the_stack(stubs: Stubs, monkeypatch: pytest.MonkeyPatch) -> None:
    with stubs.stack() as stack:
        stack.start()
        former = service(stack.state, Service.TRAINER).process
        write, full = StackFile.write, threading.Event()
        full.set()

        def full_disk(file: StackFile, state: StackState) -> None:
            if full.is_set():
                full.clear()
                raise OSError(28, "No space left on device")
            write(file, state)

        monkeypatch.setattr(StackFile, "write", full_disk)
        os.killpg(former.pid, signal.SIGKILL)
        stubs.watch(stack, lambda now: service(now, Service.TRAINER).process != former)
    assert not full.is_set()
