"""What a run holds where the kernel does not bound it: sums, sampled by its slot."""

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

LONGEST_SECONDS = 1.0
_KIBIBYTE = 1024
BLOCK = 512
"""What the kernel counts the size of files in, in bytes."""
_FIRST_PROCESS = "1"


class Files(NamedTuple):
    """Bytes and number of files."""

    size: int
    number: int


def resident_memory(processes: int, user: int | None) -> int:
    """Sum up the processes in the open /proc ``processes``, only ``user``'s where one is given.

    Quick, and too high: pages that forks share are counted once for each fork.
    """
    return sum(resident for _, resident in _processes(processes, user))


def private_memory(processes: int, user: int | None, limit: int) -> int:
    """The same, each page divided among those who share it: exact up to ``limit``, and slow.

    To be called by somebody who may look into the processes; of one that keeps itself closed, and
    of those that are left after `LONGEST_SECONDS`, everything resident is counted.
    """
    total = 0
    end = time.monotonic() + LONGEST_SECONDS
    for pid, resident in _processes(processes, user):
        if total > limit:
            break
        total += resident if time.monotonic() > end else _share(processes, pid) or resident
    return total


def _share(processes: int, pid: str) -> int:
    lines = _lines(processes, f"{pid}/smaps_rollup")
    shares = (line for line in lines if line.startswith((b"Pss_Anon:", b"Pss_Shmem:")))
    return sum(int(line.split()[1]) * _KIBIBYTE for line in shares)


def has_processes(user: int) -> bool:
    """Whether any process of this machine is the user's."""
    processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        return any(_processes(processes, user))
    finally:
        os.close(processes)


def files_below(folder: int, most: int) -> Files:
    """What lies below an open folder; counting ends when there are more than ``most``."""
    size, number = 0, 0
    try:
        for _, folders, names, opened in os.fwalk(dir_fd=folder):
            number += len(folders) + len(names)
            size += sum(_size(name, opened) for name in (*folders, *names))
            if number > most:
                break
    except RecursionError:  # nobody means to nest folders so deep
        number = most + 1
    return Files(size, number)


def _size(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * BLOCK
    except OSError:
        return 0  # it was removed meanwhile


def _processes(processes: int, user: int | None) -> Iterator[tuple[str, int]]:
    """Number, and resident bytes that are no file's, of each process."""
    for name in os.listdir(processes):
        if not name.isdigit() or name == _FIRST_PROCESS:
            continue
        values = dict(
            line.split(b":", 1) for line in _lines(processes, f"{name}/status") if b":" in line
        )
        if b"RssAnon" not in values:
            continue  # it ended meanwhile, or is a zombie and holds nothing
        if user is None or int(values[b"Uid"].split()[1]) == user:
            resident = sum(int(values[kind].split()[0]) for kind in (b"RssAnon", b"RssShmem"))
            yield name, resident * _KIBIBYTE


def _lines(folder: int, path: str) -> list[bytes]:
    try:
        descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
    except OSError:
        return []
    try:
        with open(descriptor, "rb") as file:
            return file.readlines()
    except OSError:
        return []
