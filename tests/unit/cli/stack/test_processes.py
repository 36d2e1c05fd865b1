import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from temper.stack.processes import ProcessIdentity, end_group, group_members, identify
from tests.support.waiting import wait_for

READY = "print('ready', flush=True); "
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
WITH_CHILD = (
    "import subprocess, sys; "
    "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); "
)
SLEEP = "import time; time.sleep(60)"

Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def start_ready(code: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [sys.executable, "-c", code + READY + SLEEP],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        return process

    yield start_ready
    for process in started:
        process.kill()
        process.communicate()


def test_a_process_that_handles_sigterm_is_not_killed(start: Start) -> None:
    process = start("")

    assert end_group(identify(process.pid), grace_seconds=30)
    assert process.wait(10) == -signal.SIGTERM


def test_a_process_that_ignores_sigterm_is_killed(start: Start) -> None:
    process = start(STUBBORN)

    assert not end_group(identify(process.pid), grace_seconds=0.2)
    assert process.wait(10) == -signal.SIGKILL


def test_child_processes_are_stopped_with_their_group(start: Start) -> None:
    process = start(WITH_CHILD)
    assert len(group_members(process.pid)) == 2

    end_group(identify(process.pid), grace_seconds=30)

    assert group_members(process.pid) == []


def test_a_reused_pid_is_not_signaled(start: Start) -> None:
    process = start("")
    former = ProcessIdentity(pid=process.pid, started=identify(process.pid).started - 1)

    end_group(former, grace_seconds=0.2)

    assert not former.is_alive
    assert process.poll() is None


def test_a_zombie_is_not_alive(start: Start) -> None:
    process = start("")
    identity = identify(process.pid)
    process.kill()

    # Although nobody reaps it.
    wait_for(lambda: not identity.is_alive, "the end of the process", 60)


def test_identifying_a_missing_process_fails() -> None:
    with pytest.raises(ProcessLookupError):
        identify(2**22 + 1)
