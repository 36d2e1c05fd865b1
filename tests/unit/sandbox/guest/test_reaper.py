"""The first process of a run's pid namespace: a few machine instructions."""

import os
import platform
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services.sandbox.guest import reaper, syscalls
from tests.support.programs.confined import in_fork
from tests.support.waiting import wait_for

SECONDS = 50


@pytest.fixture
def executable(tmp_path: Path) -> Path:
    file = tmp_path / "reaper"
    file.write_bytes(reaper.executable())
    file.chmod(0o755)
    return file


@pytest.fixture
def running(executable: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([executable], stdin=subprocess.PIPE, env={}) as process:
        yield process
        process.kill()


def close(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def test_the_reaper_exits_when_its_pipe_closes(running: subprocess.Popen[bytes]) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(0.1)

    close(running)

    assert running.wait(SECONDS) == 0


def test_writing_to_its_pipe_does_not_end_the_reaper(running: subprocess.Popen[bytes]) -> None:
    assert running.stdin is not None
    running.stdin.write(b"x" * 10_000)
    running.stdin.flush()

    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(0.1)


def test_the_reaper_can_be_killed(running: subprocess.Popen[bytes]) -> None:
    running.kill()

    assert running.wait(SECONDS) == -signal.SIGKILL


def test_the_reaper_uses_almost_no_memory(running: subprocess.Popen[bytes]) -> None:
    def own_program() -> bool:
        return Path(f"/proc/{running.pid}/exe").readlink().name == "reaper"

    wait_for(own_program, "the program is executed")
    lines = Path(f"/proc/{running.pid}/status").read_text().splitlines()
    values = dict(line.split(":", 1) for line in lines)
    assert int(values["VmRSS"].split()[0]) < 100


def as_first_process(executable: Path, task: Callable[[int], Any]) -> Any:
    """Run ``task`` as a child of a reaper that is the first in a pid namespace.

    It gets the number of the reaper out here.
    """

    def start() -> Any:
        read_end, write_end = os.pipe()
        if os.geteuid():
            syscalls.unshare(syscalls.CLONE_NEWUSER)
        syscalls.unshare(syscalls.CLONE_NEWPID)
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        streams = [(os.POSIX_SPAWN_DUP2, read_end, 0)]
        pid = os.posix_spawn(executable, ["reaper"], {}, file_actions=streams)
        signal.signal(signal.SIGCHLD, before)
        try:
            return task(pid)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.close(write_end)
            os.waitpid(pid, 0)

    return in_fork(start)


def test_orphans_are_adopted_and_reaped(executable: Path) -> None:
    def leave_an_orphan(reaper_pid: int) -> list[str]:
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                os._exit(3)  # an orphan, or about to be one
            os._exit(0)
        os.waitpid(child, 0)
        children = Path(f"/proc/{reaper_pid}/task/{reaper_pid}/children")
        wait_for(lambda: children.read_text() == "", "orphans are gone", SECONDS)
        return children.read_text().split()

    assert as_first_process(executable, leave_an_orphan) == []


def test_killing_the_reaper_kills_the_namespace(executable: Path) -> None:
    def leave_a_sleeper(reaper_pid: int) -> int:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.execv("/bin/sleep", ["sleep", "600"])
        os.kill(reaper_pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert as_first_process(executable, leave_a_sleeper) == -signal.SIGKILL


def test_unsupported_architectures_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")

    with pytest.raises(OSError, match="riscv64"):
        reaper.executable()
