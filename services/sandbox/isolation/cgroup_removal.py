"""Kills a cgroup's processes and removes it, with timeouts."""

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

_MAX_SECONDS = 15.0
_PAUSE_SECONDS = 0.002


def processes_in(folder: Path) -> list[int]:
    """Ids of the processes in a group, empty if it is gone.

    A process outside this pid namespace appears as 0.
    """
    try:
        return [int(line) for line in (folder / "cgroup.procs").read_text().split()]
    except OSError:
        return []


def kill_all(folder: Path) -> None:
    """Kill every process in a group, even if it forks quickly.

    Raises TimeoutError if one of them survives for 15 seconds.
    """
    limit = folder / "pids.max"
    before = limit.read_text() if limit.exists() else None
    try:
        for _ in _until(lambda: not processes_in(folder), f"processes of {folder} survive SIGKILL"):
            if before is not None:
                limit.write_text("0")
            signal_all(folder)
    finally:
        if before is not None:
            limit.write_text(before)


def remove(folder: Path) -> None:
    """Kill everything in a group and its subgroups, and remove them.

    A missing group is fine. Raises TimeoutError after 15 seconds.
    """
    for inner in _groups_in(folder):
        remove(inner)
    kill_all(folder)
    for file, text in (("memory.force_empty", "0"), ("memory.reclaim", "1T")):
        # Remaining page cache would keep the kernel's group object alive.
        with suppress(OSError):
            (folder / file).write_text(text)
    for _ in _until(lambda: _removed(folder), f"{folder} stays busy"):
        kill_all(folder)


def signal_all(folder: Path) -> None:
    """Send SIGKILL to every process in a group once; on cgroup v1 quick forks may escape it."""
    try:
        (folder / "cgroup.kill").write_text("1")
    except OSError:  # cgroup v1, or a kernel before 5.14
        for pid in filter(None, processes_in(folder)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _groups_in(folder: Path) -> list[Path]:
    try:
        return [inner for inner in folder.iterdir() if inner.is_dir()]
    except FileNotFoundError:
        return []


def _removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        return True
    except OSError as busy:
        if busy.errno != errno.EBUSY:
            raise
        return False
    return True


def _until(done: Callable[[], bool], what: str) -> Iterator[None]:
    """Yield for another attempt until ``done``; raises TimeoutError saying ``what``."""
    deadline = time.monotonic() + _MAX_SECONDS
    is_late = False
    while not done():
        if is_late:
            raise TimeoutError(f"{what} within {_MAX_SECONDS:.0f} seconds")
        yield
        time.sleep(_PAUSE_SECONDS)
        is_late = time.monotonic() > deadline  # before the check, which may itself be delayed
