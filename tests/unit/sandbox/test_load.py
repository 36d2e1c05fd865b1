"""The load of running programs, and the resources they leave."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from services.sandbox import load
from services.sandbox.load import FreeMemory, ProgramActivity, ProgramLoad, activity
from services.sandbox.pool.crowd import Occupant
from tests.support.waiting import wait_for

PROGRAMS = {
    "sleeps": ("import time; time.sleep(600)", False),
    "computes": ("while True: pass", True),
    "computes in a thread": (
        "import threading, time\n"
        "def spin():\n    while True: pass\n"
        "threading.Thread(target=spin, daemon=True).start()\ntime.sleep(600)",
        True,
    ),
    "computes in a child": (
        "import os, time\nif os.fork() == 0:\n    while True: pass\ntime.sleep(600)",
        True,
    ),
}


@contextmanager
def below_a_slot(code: str) -> Iterator[int]:
    """A process whose child runs a program; its whole group is killed at the end."""
    slot = f"import subprocess, sys\nsubprocess.run([sys.executable, '-I', '-S', '-c', {code!r}])"
    command = [sys.executable, "-I", "-S", "-c", slot]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_computes_if_any_of_its_threads_and_processes_does(kind: str) -> None:
    code, computes = PROGRAMS[kind]
    with below_a_slot(code) as slot:

        def has_started_and_is_seen() -> bool:
            seen = activity(slot)  # until it has started, any program computes
            return seen.computes is computes and seen.resident_bytes > 1 << 20

        wait_for(has_started_and_is_seen, "its activity")


def test_unreadable_processes_count_as_computing() -> None:
    assert activity(1 << 30) == ProgramActivity(True, 0)


def occupants(*limits: int) -> list[Occupant]:
    started_at = time.monotonic() - 60
    return [Occupant(pid, started_at, limit) for pid, limit in enumerate(limits)]


def test_memory_is_kept_for_programs_that_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "activity", lambda pid: ProgramActivity(pid == 0, 40))
    of_programs = ProgramLoad(lambda: occupants(100, 100), lambda: 200)

    assert of_programs.has_room(140, [], max_busy=2)
    assert not of_programs.has_room(141, [], max_busy=2)
    assert not of_programs.has_room(100, [41], max_busy=4)


def test_programs_that_compute_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "activity", lambda pid: ProgramActivity(pid < 3, 0))
    of_programs = ProgramLoad(lambda: occupants(*[1] * 9), lambda: 1 << 30)

    assert of_programs.has_room(1, [], max_busy=4)
    assert not of_programs.has_room(1, [1], max_busy=4)
    assert not of_programs.has_room(1, [], max_busy=3)


def test_programs_started_long_after_their_admission_count() -> None:
    young = [Occupant(1, time.monotonic() + 60, 100)]
    of_programs = ProgramLoad(lambda: young, lambda: 200)

    assert of_programs.has_room(100, [], 2)
    assert of_programs.has_room(100, [100], 2), "it is the one just admitted"
    assert not of_programs.has_room(100, [], 1)
    assert not of_programs.has_room(101, [], 2)


def test_a_program_that_yields_takes_no_processor_but_its_memory() -> None:
    yielding = occupants(100)
    yielding[0].yields = True
    of_programs = ProgramLoad(lambda: yielding, lambda: 200)

    assert of_programs.has_room(100, [], max_busy=1)
    assert not of_programs.has_room(101, [], max_busy=1)


def test_disk_is_kept_for_programs_that_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "activity", lambda pid: ProgramActivity(pid == 0, 0))
    free = [200]
    of_programs = ProgramLoad(lambda: occupants(1, 1), lambda: 1 << 30, lambda: free[0], 100)

    assert of_programs.has_room(1, [], max_busy=9)
    free[0] = 199
    assert not of_programs.has_room(1, [], max_busy=9)


def test_free_memory_is_that_of_the_tightest_bound(tmp_path: Path) -> None:
    machine = tmp_path / "meminfo"
    machine.write_text("MemTotal: 4000 kB\nMemFree: 1 kB\nMemAvailable:    1000 kB\n")
    first, second, unlimited = (tmp_path / name for name in ("first", "second", "unlimited"))
    for folder, files in {
        first: {
            "memory.limit_in_bytes": "900000",
            "memory.usage_in_bytes": "500000",
            "memory.stat": "inactive_file 1\ntotal_inactive_file 100000\n",
        },
        second: {
            "memory.max": "800000",
            "memory.current": "500000",
            "memory.stat": "anon 1\ninactive_file 100000\n",
        },
        unlimited: {"memory.max": "max", "memory.current": "500000", "memory.stat": ""},
    }.items():
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)

    assert FreeMemory([unlimited, tmp_path], machine)() == 1000 << 10
    assert FreeMemory([first], machine)() == 500_000
    assert FreeMemory([first, second, unlimited], machine)() == 400_000
    assert FreeMemory([])() > os.sysconf("SC_PAGE_SIZE")
