"""Control groups enforce their limits and leave nothing behind."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from services.sandbox.isolation.cgroup import Cgroup
from services.sandbox.isolation.cgroup_removal import processes_in
from services.sandbox.isolation.cgroups import Cgroups, find_cgroups
from services.sandbox.isolation.hierarchy import Controller, own_cgroups
from tests.support.programs.confined import Killed, in_fork
from tests.support.waiting import wait_for

MEBIBYTE = 1 << 20
TAKES_MEMORY = """
import sys
held = bytearray(int(sys.argv[1]) << 20)
print("holding", flush=True)
sys.stdin.readline()
"""
FILLS_A_FILE_IN_MEMORY = """
import os
file = os.memfd_create("file")
for _ in range(200):
    os.write(file, bytes(1 << 20))
"""
FORKS_FOREVER = """
import os, signal, time
while True:
    try:
        if os.fork() == 0:
            signal.pause()
    except OSError:
        time.sleep(0.01)
"""


@pytest.fixture
def prefix() -> str:
    # It begins as that of nobody else: pools of other tests remove what `temper-test` has left.
    return f"temper-unit-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def cgroups(prefix: str) -> Iterator[Cgroups]:
    found = find_cgroups(prefix)
    yield found
    found.close()
    assert folders_of(prefix) == []


@pytest.fixture
def group(cgroups: Cgroups) -> Iterator[Cgroup]:
    group = cgroups.create("slot")
    yield group
    group.remove()


def folders_of(prefix: str) -> list[Path]:
    """The folders that were made under a prefix, in this process's groups or beside them."""
    groups = [location.folder for location in own_cgroups()]
    bases = {base for group in groups for base in (group, group.parent)}
    return sorted(folder for base in bases for folder in base.glob(f"{prefix}-*"))


def need(cgroups: Cgroups, controller: Controller) -> None:
    if controller not in cgroups.controllers:
        pytest.skip(f"no {controller} groups here: {cgroups.reasons[controller]}")


def start_in(group: Cgroup, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a program that is in the group from its beginning."""
    command = 'read -r _ && exec "$@"'
    process = subprocess.Popen(
        ["/bin/bash", "-c", command, "bash", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    group.add(process.pid)
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()
    return process


def take_memory(group: Cgroup, mebibytes: int) -> int:
    """Let a program take so much; return its exit code."""
    process = start_in(group, sys.executable, "-c", TAKES_MEMORY, str(mebibytes))
    process.communicate(b"\n")
    return process.returncode


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_program_over_the_memory_limit_is_killed_and_counted(
    cgroups: Cgroups, group: Cgroup
) -> None:
    need(cgroups, Controller.MEMORY)
    group.set_memory_limit(100 * MEBIBYTE)

    assert take_memory(group, 20) == 0
    assert group.oom_kills() == 0
    assert take_memory(group, 200) == -signal.SIGKILL
    assert group.oom_kills() == 1


def test_limits_can_be_raised_lowered_and_lifted(cgroups: Cgroups, group: Cgroup) -> None:
    need(cgroups, Controller.MEMORY)
    for limit in (100, 300, 50, None, 60):
        group.set_memory_limit(limit and limit * MEBIBYTE)

    assert take_memory(group, 200) == -signal.SIGKILL
    group.set_memory_limit(None)
    assert take_memory(group, 200) == 0


def test_tmpfs_files_count_as_memory(cgroups: Cgroups, group: Cgroup) -> None:
    need(cgroups, Controller.MEMORY)
    group.set_memory_limit(100 * MEBIBYTE)
    script = (
        "import os; f = os.memfd_create('x'); [os.write(f, bytes(1 << 20)) for _ in range(200)]"
    )

    process = start_in(group, sys.executable, "-c", script)

    assert process.wait() == -signal.SIGKILL


def test_peak_memory_is_kept_until_reset(cgroups: Cgroups, group: Cgroup) -> None:
    need(cgroups, Controller.MEMORY)
    group.reset_peak()
    take_memory(group, 100)
    peak = group.peak()
    if peak is None:
        pytest.skip("this kernel cannot reset a peak")

    assert peak > 100 * MEBIBYTE
    assert wait_for(lambda: (group.usage() or 0) < 50 * MEBIBYTE, "memory given back")
    group.reset_peak()
    assert (group.peak() or 0) < 50 * MEBIBYTE


def test_a_fork_bomb_is_limited_and_killed(cgroups: Cgroups, group: Cgroup) -> None:
    need(cgroups, Controller.PIDS)
    group.set_pids_limit(20)
    process = start_in(group, sys.executable, "-c", FORKS_FOREVER)
    wait_for(lambda: len(group.processes()) == 20, "the bomb has reached its limit")

    group.kill()

    assert group.processes() == set()
    assert process.wait() == -signal.SIGKILL
    assert take_memory(group, 1) == 0, "the group can be used again"


def test_cpu_time_is_limited(cgroups: Cgroups, group: Cgroup, prefix: str) -> None:
    need(cgroups, Controller.CPU)
    group.set_cpu_limit(0.05)
    start_in(group, "/bin/bash", "-c", "while :; do :; done")
    counters = [folder / "slot" / "cpu.stat" for folder in folders_of(prefix)]

    def held_back() -> bool:
        lines = [line for file in counters if file.exists() for line in file.open()]
        return any(line.startswith("nr_throttled") and int(line.split()[1]) > 0 for line in lines)

    assert wait_for(held_back, "the kernel holds the spinning program back")


def test_a_group_can_yield_processors_and_take_them_back(
    cgroups: Cgroups, group: Cgroup, prefix: str
) -> None:
    need(cgroups, Controller.CPU)
    names = ("cpu.shares", "cpu.weight")
    files = [folder / "slot" / name for folder in folders_of(prefix) for name in names]
    (file,) = [file for file in files if file.exists()]
    normal = int(file.read_text())

    group.set_cpu_weight(1 / 4)
    assert int(file.read_text()) == normal // 4
    group.set_cpu_weight(1.0)
    assert int(file.read_text()) == normal


def test_processes_and_threads_are_counted(cgroups: Cgroups, group: Cgroup) -> None:
    need(cgroups, Controller.PIDS)
    assert group.process_count() == 0
    process = start_in(group, "/bin/sleep", "600")

    assert group.process_count() == 1
    group.signal_all()
    assert process.wait() == -signal.SIGKILL


def test_removing_a_group_kills_its_processes(cgroups: Cgroups, prefix: str) -> None:
    if not cgroups.controllers:
        pytest.skip(f"no groups here: {cgroups.reasons}")
    group = cgroups.create("slot")
    process = start_in(group, "/bin/sleep", "600")

    group.remove()

    assert process.wait() == -signal.SIGKILL
    assert not [folder for folder in folders_of(prefix) if (folder / "slot").exists()]


def test_groups_of_a_killed_service_are_removed_by_the_next(prefix: str) -> None:
    def be_killed() -> None:
        group = find_cgroups(prefix).create("slot")
        start_in(group, "/bin/sleep", "600")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(Killed):
        in_fork(be_killed)
    abandoned = folders_of(prefix)
    processes = {pid for folder in abandoned for pid in processes_in(folder / "slot")}
    if not abandoned:
        pytest.skip("no groups here")

    find_cgroups(prefix).close()

    assert folders_of(prefix) == []
    assert len(processes) == 1
    assert all(has_ended(pid) for pid in processes)


def test_groups_of_a_running_service_are_kept(cgroups: Cgroups, group: Cgroup, prefix: str) -> None:
    before = folders_of(prefix)

    find_cgroups(prefix).close()

    assert folders_of(prefix) == before
    assert take_memory(group, 1) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_unusable_controllers_are_reported(prefix: str) -> None:
    def as_nobody() -> list[object]:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        found = find_cgroups(prefix)
        group = found.create("slot")
        group.add(os.getpid())
        group.set_memory_limit(MEBIBYTE)
        group.remove()
        found.close()
        return [sorted(found.controllers), sorted(found.reasons.values()), group.usage()]

    controllers, reasons, usage = in_fork(as_nobody)

    assert (controllers, usage) == ([], None)
    assert len(reasons) == 3
    assert all("belongs to another user" in why or "offers no such" in why for why in reasons)
