"""A service's process: detected exits, restarts with growing delays, and recovery."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services.contracts.stack import ServiceCondition, ServiceStatus
from temper.stack.child import (
    FAILED_AFTER,
    LONGEST_DELAY_SECONDS,
    STABLE_SECONDS,
    Child,
    Event,
    Exited,
    Recovered,
    Restarted,
)
from temper.stack.processes import end_group
from temper.stack.services import Service
from tests.support.waiting import wait_for

DEADLINE = 60.0
LIVES = "sleep 600"
DIES = "echo out of luck; exit 3"
UNSUPPORTED = "echo runtime is missing; exit 2"


class Clock:
    """A monotonic clock that is set by the test."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


Start = Callable[[str], Child]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start(tmp_path: Path, clock: Clock) -> Iterator[Start]:
    started: list[Child] = []

    def start_child(code: str) -> Child:
        log = tmp_path / "trainer.log"
        command = ["/bin/sh", "-c", code]
        child = Child(Service.TRAINER, command, os.environ, log, clock=clock)
        started.append(child)
        return child

    yield start_child
    for child in started:
        end_group(child.running.process, 0.1)
        assert child.reap(DEADLINE)


def next_event(child: Child) -> Event:
    happened: list[Event] = []

    def has_happened() -> bool:
        event = child.check()
        if event is not None:
            happened.append(event)
        return event is not None

    wait_for(has_happened, "something happens", DEADLINE)
    return happened[0]


def exits(child: Child, clock: Clock, count: int) -> list[Exited]:
    """The next exits of a process that is started again as soon as its delay has passed."""
    found = []
    for _ in range(count):
        event = next_event(child)
        assert isinstance(event, Exited)
        found.append(event)
        assert child.check() is None  # not before its delay has passed
        clock.now += event.restart_in
        assert isinstance(child.check(), Restarted)
    return found


def test_a_killed_process_is_restarted(start: Start, clock: Clock) -> None:
    child = start(LIVES)
    former = child.running.process
    assert child.check() is None

    os.kill(former.pid, signal.SIGKILL)
    (died,) = exits(child, clock, 1)

    assert "trainer exited with signal 9" in died.cause.message
    assert died.service.condition.status is ServiceStatus.RESTARTING
    assert child.running.process != former
    assert child.running.process.is_alive
    assert child.running.condition.status is ServiceStatus.RUNNING


def test_a_service_that_keeps_exiting_is_failed_and_tried_with_growing_delays(
    start: Start, clock: Clock
) -> None:
    child = start(DIES)

    died = exits(child, clock, 14)

    assert [each.restart_in for each in died[:6]] == [1, 2, 4, 8, 16, 32]
    assert died[-1].restart_in == LONGEST_DELAY_SECONDS
    failed = [each.service.condition.status is ServiceStatus.FAILED for each in died]
    assert failed == [False] * FAILED_AFTER + [True] * (14 - FAILED_AFTER)
    last = died[-1].service.condition
    assert last.exits == 14
    assert last.reason is not None
    assert "exit code 3" in last.reason
    assert last.last_lines == ["out of luck"] * 14
    assert child.running.condition.status is ServiceStatus.RECOVERING


def test_a_service_that_cannot_run_here_is_failed_at_once_for_its_reason(
    start: Start, clock: Clock
) -> None:
    (died,) = exits(start(UNSUPPORTED), clock, 1)

    assert died.restart_in == LONGEST_DELAY_SECONDS
    assert died.service.condition.status is ServiceStatus.FAILED
    assert died.service.condition.reason == "runtime is missing"


def test_a_service_recovers_once_it_has_run_for_long(start: Start, clock: Clock) -> None:
    child = start(LIVES)
    for _ in range(FAILED_AFTER + 1):
        os.kill(child.running.process.pid, signal.SIGKILL)
        exits(child, clock, 1)
    assert child.check() is None

    clock.now += STABLE_SECONDS

    assert isinstance(child.check(), Recovered)
    assert child.running.condition == ServiceCondition()
    os.kill(child.running.process.pid, signal.SIGKILL)
    assert [each.restart_in for each in exits(child, clock, 1)] == [1]


def test_a_service_that_cannot_be_started_again_is_tried_later(
    start: Start, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start(DIES)
    died = next_event(child)
    assert isinstance(died, Exited)

    def no_memory(*_: object, **__: object) -> None:
        raise OSError("Cannot allocate memory")

    with monkeypatch.context() as patched:
        patched.setattr("temper.stack.child.subprocess.Popen", no_memory)
        clock.now += died.restart_in
        refused = child.check()
    assert isinstance(refused, Exited)
    assert "Cannot allocate memory" in refused.cause.message
    clock.now += refused.restart_in
    assert isinstance(child.check(), Restarted)


def test_a_process_that_cannot_be_killed_has_no_successor(
    start: Start, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = start(DIES)
    wait_for(lambda: not child.running.process.is_alive, "it exits", DEADLINE)
    former = child.running.process

    with monkeypatch.context() as patched:
        patched.setattr(Child, "reap", lambda *_: False)
        for _ in range(2):
            died = child.check()
            assert isinstance(died, Exited)
            assert "cannot be killed" in died.cause.message
            clock.now += died.restart_in

    assert child.running.process == former
    assert isinstance(child.check(), Restarted)
