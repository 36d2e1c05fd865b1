"""Helpers that act as a run's user have deadlines."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from services.core.process.runtimes import REPOSITORY
from services.sandbox.guest import container, syscalls
from services.sandbox.guest.accounting import ForkBomb

USER = 1_500_000_000

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def in_a_process(program: str) -> str:
    """What a program prints; slots have one thread, and a fork of several may hang in setresuid."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout


def test_a_helper_answers_as_the_user() -> None:
    program = f"""import os
from services.sandbox.guest import container
print(container._run_as({USER}, lambda: str(os.getuid())))
"""
    assert in_a_process(program) == f"{USER}\n"


def test_a_new_slot_ends_and_removes_what_an_earlier_one_left(tmp_path: Path) -> None:
    user = USER + 1
    workspace = tmp_path / str(user) / "workspace"
    (workspace / "folder").mkdir(parents=True)
    (workspace / "folder" / "file").touch()
    with (
        tempfile.NamedTemporaryFile(dir="/dev/shm", delete=False) as shared,
        subprocess.Popen(["sleep", "600"], user=user, group=user, extra_groups=[]) as left,
    ):
        os.chown(shared.name, user, user)
        call = f"container.take_over({str(tmp_path)!r}, {user})"
        in_a_process(f"from services.sandbox.guest import container\n{call}\n")

        assert left.wait(120) == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []
    assert not Path(shared.name).exists()


def test_a_stopped_helper_times_out_and_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_HELPER_SECONDS", 0.05)
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

    assert container._run_as(USER, stop) is None
    with pytest.raises(ChildProcessError):  # killed and reaped
        os.waitpid(helpers[0], os.WNOHANG)


def test_a_killed_helper_has_no_answer() -> None:
    def die() -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    assert container._run_as(USER, die) is None


def test_a_helper_of_a_fork_bomb_is_not_waited_for() -> None:
    def look() -> None:
        raise ForkBomb

    def wait() -> str:
        signal.pause()
        return "never"

    with pytest.raises(ForkBomb):
        container._run_as(USER, wait, meanwhile=look)
