"""A service's process: crash detection and restarts."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from temper.stack.child import MOST_RESTARTS, WITHIN_SECONDS, Child, Crashed, Restarted, Restarts
from temper.stack.errors import ServiceDied
from temper.stack.processes import end_group
from temper.stack.services import Service

DEADLINE = 60.0
LIVES = "import time; time.sleep(600)"
DIES = "print('out of luck', flush=True); raise SystemExit(3)"

Start = Callable[[str], Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Child] = []

    def start_child(code: str) -> Child:
        command = [sys.executable, "-c", code]
        restarts = Restarts(first_delay=0.01)
        child = Child(Service.TRAINER, command, os.environ, tmp_path / "trainer.log", restarts)
        started.append(child)
        return child

    yield start_child
    for child in started:
        end_group(child.running.process, 0.1)
        child.wait(DEADLINE)


def next_event(child: Child) -> Crashed | Restarted:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if (event := child.keep_alive()) is not None:
            return event
        time.sleep(0.01)
    raise AssertionError("nothing happened in time")


def test_a_killed_process_is_restarted(start: Start) -> None:
    child = start(LIVES)
    former = child.running.process
    assert child.keep_alive() is None

    os.kill(former.pid, signal.SIGKILL)
    died, restarted = next_event(child), next_event(child)

    assert isinstance(died, Crashed)
    assert "trainer exited with signal 9" in died.cause.message
    assert isinstance(restarted, Restarted)
    assert restarted.service.process != former
    assert child.running.process.is_alive


def test_a_crash_loop_is_given_up(start: Start) -> None:
    child = start(DIES)

    events = [next_event(child) for _ in range(2 * MOST_RESTARTS)]
    with pytest.raises(
        ServiceDied, match=r"exit code 3.*after 5 restarts within 300 s"
    ) as given_up:
        next_event(child)

    deaths = [event for event in events if isinstance(event, Crashed)]
    assert [event.restart_in for event in deaths] == [0.01, 0.02, 0.04, 0.08, 0.16]
    assert all("out of luck" in event.cause.last_lines for event in deaths)
    assert given_up.value.last_lines == ["out of luck"] * (1 + MOST_RESTARTS)


def test_old_crashes_do_not_count() -> None:
    restarts = Restarts()

    assert [restarts.after_crash(now) for now in range(6)] == [1, 2, 4, 8, 16, None]
    assert restarts.after_crash(WITHIN_SECONDS) == 16  # only the first has expired
    assert restarts.after_crash(3 * WITHIN_SECONDS) == 1
