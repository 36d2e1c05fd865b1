"""Slots do not wait for helpers longer than for the programs that keep them waiting."""

import os
import signal
import time

import pytest

from services.sandbox.guest import helper, syscalls
from services.sandbox.guest.accounting import ForkBomb
from tests.unit.sandbox.guest.one_thread import USER, in_a_process

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def test_a_helper_answers_as_the_user() -> None:
    program = f"""import os
from services.sandbox.guest import helper
print(helper.answer_of(lambda: str(os.getuid()), {USER}))
"""
    assert in_a_process(program) == f"{USER}\n"


def test_a_stopped_helper_times_out_and_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper, "_LONGEST_SECONDS", 0.05)
    helpers: list[int] = []
    fork = syscalls.fork

    def recorded_fork() -> int:
        helpers.append(fork())
        return helpers[-1]

    monkeypatch.setattr(syscalls, "fork", recorded_fork)

    def stop() -> str:
        os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(600)
        return "never"

    assert helper.answer_of(stop, USER) is None
    with pytest.raises(ChildProcessError):  # killed and reaped
        os.waitpid(helpers[0], os.WNOHANG)


def test_a_killed_helper_has_no_answer() -> None:
    def die() -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    assert helper.answer_of(die, USER) is None


def test_a_helper_of_a_fork_bomb_is_not_waited_for() -> None:
    def look() -> None:
        raise ForkBomb

    def wait() -> str:
        signal.pause()
        return "never"

    with pytest.raises(ForkBomb):
        helper.answer_of(wait, USER, meanwhile=look)


def test_a_helper_is_left_at_the_time_limit_of_its_run() -> None:
    def late() -> str:
        time.sleep(1.0)
        return "late"

    assert helper.answer_of(late, USER, until=time.monotonic() + 0.05) is None
