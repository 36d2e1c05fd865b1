"""Accounting of a run without control groups."""

import contextlib
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from services.sandbox.guest import accounting
from services.sandbox.guest.processes import Process
from tests.support.programs.confined import in_fork
from tests.support.waiting import wait_for

MEGABYTE = 1 << 20


@pytest.fixture
def processes() -> Iterator[int]:
    descriptor = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def open_folder(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY)


def holding(size: int, *, forks: int, user: int) -> "subprocess.Popen[bytes]":
    """Processes of ``user`` that share so many bytes, each a fork of the first."""
    program = (
        f"import os, sys\nos.setresuid({user}, {user}, {user})\nheld = b'x' * {size}\n"
        f"for _ in range({forks}):\n"
        "    if os.fork() == 0:\n        sys.stdin.read()\n        os._exit(0)\n"
        "print('ready', flush=True)\nsys.stdin.read()\n"
    )
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another user")
def test_shared_pages_of_forks_count_once(processes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LONGEST_SECONDS", "_LONGEST_WAIT_SECONDS"):  # or it counts less exactly after 1 s
        monkeypatch.setattr(accounting, name, 600.0)
    user = 1_800_000_000 + os.getpid() % 100_000
    with holding(60 * MEGABYTE, forks=2, user=user) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"

        resident = accounting.resident_memory(processes, user)
        private = accounting.private_memory(processes, user, limit=1 << 40)
        process.communicate(b"")

    assert 180 * MEGABYTE < resident.memory < 300 * MEGABYTE
    assert resident.exclusive(0) is None
    assert 60 * MEGABYTE < private < 100 * MEGABYTE
    wait_for(
        lambda: accounting.resident_memory(processes, user).processes == 0, "nothing is counted"
    )


def test_shared_memory_counts_as_memory() -> None:
    before = accounting.own_anonymous_memory()
    with mmap.mmap(-1, 50 * MEGABYTE) as shared:
        shared.write(b"x" * (50 * MEGABYTE))

        after = accounting.own_anonymous_memory()

    assert after - before > 40 * MEGABYTE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another user")
def test_unlinked_files_are_found(processes: int, tmp_path: Path) -> None:
    user = 1_700_000_000 + os.getpid() % 100_000
    program = (
        f"import mmap, os, sys\nfile = open({str(tmp_path / 'removed')!r}, 'wb')\n"
        f"os.unlink(file.name)\nos.setresuid({user}, {user}, {user})\n"
        f"file.write(os.urandom({4 * MEGABYTE}))\nfile.flush()\n"
        f"shared = mmap.mmap(-1, {8 * MEGABYTE})\nprint('ready', flush=True)\nsys.stdin.read()\n"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        found = accounting.unlinked_files(processes, user)
        process.communicate(b"")

    assert found.memory == 8 * MEGABYTE
    assert 4 * MEGABYTE <= found.disk < 5 * MEGABYTE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another user")
def test_a_process_counts_when_its_first_thread_has_ended(processes: int, tmp_path: Path) -> None:
    user = 1_500_000_000 + os.getpid() % 100_000
    program = (
        f"import ctypes, os, sys, threading\nfile = open({str(tmp_path / 'removed')!r}, 'wb')\n"
        f"os.unlink(file.name)\nos.setresuid({user}, {user}, {user})\n"
        f"file.write(os.urandom({4 * MEGABYTE}))\nfile.flush()\nfirst = threading.get_native_id()\n"
        f"def hold():\n    held = b'x' * {60 * MEGABYTE}\n"
        "    while ') Z ' not in open(f'/proc/self/task/{first}/stat').read(): pass\n"
        "    print('ready', flush=True)\n    sys.stdin.read()\n    os._exit(0)\n"
        "threading.Thread(target=hold).start()\nctypes.CDLL(None).pthread_exit(None)\n"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        resident = accounting.resident_memory(processes, user)
        private = accounting.private_memory(processes, user, limit=1 << 40)
        found = accounting.unlinked_files(processes, user)
        process.communicate(b"")

    assert resident.memory > 60 * MEGABYTE
    assert private > 60 * MEGABYTE
    assert 4 * MEGABYTE <= found.disk < 5 * MEGABYTE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_socket_counts_with_what_it_can_buffer(processes: int) -> None:
    user = 1_800_000_000 + os.getpid() % 100_000

    def look() -> list[int]:
        os.setresuid(user, user, user)
        before = accounting.unlinked_files(processes, user)
        pairs = [socket.socketpair() for _ in range(10)]
        for end, _ in pairs:
            end.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    end.send(bytes(1 << 16))
        after = accounting.unlinked_files(processes, user)
        return [before.memory, after.memory]

    before, after = in_fork(look)
    assert after - before >= 10 * 2 * 212_992


def test_shrinking_space_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    left = [1000]
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_bavail=left[0], f_frsize=1))
    space = accounting.SharedSpace(0)

    noticed = []
    for left[0] in (990, 980, 900, 890, 1000, 950):
        noticed.append(space.is_shrinking())

    assert noticed == [False, False, True, False, False, True]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_that_exits_while_inspected_counts_nothing(
    processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = 1_600_000_000 + os.getpid() % 100_000
    mappings = accounting._removed_mappings

    def look() -> list[list[int]]:
        os.setresuid(user, user, user)
        # This process counts as well, with what tests before have left open in it.
        alone = accounting.unlinked_files(processes, user)
        child = os.fork()
        if child == 0:
            os.execv("/bin/sleep", ["sleep", "60"])  # a fork is closed to us
        name = Path(f"/proc/{child}/comm")
        wait_for(lambda: name.read_text() == "sleep\n", "the child is another program")

        def end_meanwhile(folder: int, pid: str) -> Iterator[Any]:
            yield from mappings(folder, pid)
            if int(pid) == child:
                os.kill(child, signal.SIGKILL)
                os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)

        monkeypatch.setattr(accounting, "_removed_mappings", end_meanwhile)  # of this fork alone
        return [list(alone), list(accounting.unlinked_files(processes, user))]

    alone, with_child = in_fork(look)
    assert with_child == alone


def test_files_count_with_allocated_blocks(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/full").write_bytes(os.urandom(MEGABYTE))
    with (tmp_path / "a/sparse").open("wb") as sparse:
        sparse.truncate(100 * MEGABYTE)
    (tmp_path / "link").symlink_to("/usr")

    folder = open_folder(tmp_path)
    size, number = accounting.disk_usage(folder, 1000)
    os.close(folder)

    assert number == 5
    assert MEGABYTE <= size < 2 * MEGABYTE


def test_counting_stops_beyond_the_bound(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/file").touch()

    folder = open_folder(tmp_path)
    found = accounting.disk_usage(folder, 25)
    os.close(folder)

    assert 25 < found.number <= 40


def test_a_tree_too_deep_to_walk_exceeds_every_bound(deep_tree: Path) -> None:
    folder = open_folder(deep_tree)

    assert accounting.disk_usage(folder, 100_000).number > 100_000
    os.close(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another user")
def test_page_tables_count_as_memory(processes: int) -> None:
    user = 1_600_000_000 + os.getpid() % 100_000
    empty = 4 << 30
    program = (
        f"import mmap, os, sys\nos.setresuid({user}, {user}, {user})\n"
        f"empty = mmap.mmap(-1, {empty}, flags={mmap.MAP_PRIVATE | 0x4000}, prot=mmap.PROT_READ)\n"
        f"for at in range(0, {empty}, 2048 * 4096): empty[at]\nprint('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        status = Path(f"/proc/{process.pid}/status").read_text()
        tables = int(status.split("VmPTE:")[1].split()[0]) << 10

        resident = accounting.resident_memory(processes, user)
        private = accounting.private_memory(processes, user, limit=1 << 40)
        process.communicate(b"")

    anonymous = int(status.split("RssAnon:")[1].split()[0]) << 10
    assert resident.memory >= anonymous + tables
    assert private >= tables


def test_a_slow_sample_is_repeated_within_a_bound() -> None:
    assert accounting.pause_after(0.0) < accounting.pause_after(0.01)
    assert accounting.pause_after(3600.0) < 1.0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another user")
@pytest.mark.parametrize(("work", "computing"), [("while True: pass", 3), ("signal.pause()", 0)])
def test_processes_that_compute_are_counted(processes: int, work: str, computing: int) -> None:
    user = 1_400_000_000 + os.getpid() % 100_000
    program = (
        f"import os, signal, sys\nos.setresuid({user}, {user}, {user})\nfirst = os.getpid()\n"
        f"for _ in range(2): os.fork()\nif os.getpid() != first:\n    {work}\n"
        "sys.stdin.read()\nos.kill(-1, signal.SIGKILL)\n"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            wait_for(
                lambda: accounting.resident_memory(processes, user)[1:] == (4, computing),
                "all of them are counted",
            )
        finally:
            process.communicate(b"")


def many(computing: int) -> accounting.Resident:
    return accounting.Resident(0, processes=250, computing=computing)


@pytest.mark.parametrize(
    ("processors", "limit", "computing"), [(2, 256, 129), (2, 64, 65), (128, 256, 257)]
)
def test_a_fork_bomb_has_many_processes_that_keep_computing(
    monkeypatch: pytest.MonkeyPatch, processors: int, limit: int, computing: int
) -> None:
    monkeypatch.setattr(accounting, "_PROCESSORS", processors)
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = accounting.ForkBombWatch(limit)
    for held in (computing, computing - 1, computing, computing, 1, computing):
        watch.check(many(held))
        now[0] += 0.08
    with pytest.raises(accounting.ForkBomb):
        for _ in range(2):
            watch.check(many(computing))
            now[0] += 0.08


def test_intermittently_computing_processes_are_no_fork_bomb(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    watch = accounting.ForkBombWatch(256)
    for computing in (250, 10) * 10:
        watch.check(many(computing))
        now[0] += 10


def test_a_process_that_dies_while_it_is_looked_at_counts_as_nothing(
    monkeypatch: pytest.MonkeyPatch, processes: int
) -> None:
    dying = Process("999999999", owner=0, memory=1 << 30, computing=0)
    monkeypatch.setattr(accounting, "living", lambda *_: iter([dying]))
    assert accounting.private_memory(processes, None, 1 << 20) == 0


SORTING = """
import ctypes, os, sys, threading
os.setresuid(USER, USER, USER)
libc, size = ctypes.CDLL(None), 5_000_000
def sort():
    while True: libc.qsort(ctypes.create_string_buffer(size), size, 1, libc.memcmp)
for _ in range(40): threading.Thread(target=WORK, daemon=True).start()
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of another user")
@pytest.mark.drill
@pytest.mark.parametrize(
    ("work", "least", "most"), [("sort", 20, 41), ("threading.Event().wait", 0, 1)]
)
def test_computing_threads_are_counted(processes: int, work: str, least: int, most: int) -> None:
    user = 1_300_000_000 + os.getpid() % 100_000
    program = SORTING.replace("USER", str(user)).replace("WORK", work)
    command = [sys.executable, "-I", "-S", "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:

        def is_counted() -> bool:
            status = Path(f"/proc/{process.pid}/status").read_text()
            found = accounting.resident_memory(processes, user)
            return "Threads:\t41" in status and least <= found.computing <= most

        try:
            wait_for(is_counted, "the threads that compute are counted")
        finally:
            process.kill()
