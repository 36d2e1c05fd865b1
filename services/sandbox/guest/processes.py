"""The processes of a run, read from an open /proc."""

import os
import signal
from collections.abc import Iterator
from typing import NamedTuple

_KIBIBYTE = 1024
_FIRST_PROCESS = "1"
PAGE_TABLES = (b"VmPTE:",)
_RESIDENT = (b"RssAnon:", b"RssShmem:", b"VmSwap:", *PAGE_TABLES)
_COMPUTING = (b"R", b"D")
_KILLED = 1 << (signal.SIGKILL - 1)
_FEW_THREADS = 16
"""Up to so many threads, which many runtimes start, count as one: to look at each takes time."""


class Process(NamedTuple):
    """A living process: its folder in /proc, owner, and resident bytes (anonymous and shared
    memory, page tables and swap).

    The folder is that of another thread if the main one has ended, whose own is empty then.
    ``computing`` is 1 while that thread runs, is ready to run or waits in the kernel, unless it has
    been killed and only waits for its turn to die; with many threads, the number of those that do.
    """

    place: str
    owner: int
    memory: int
    computing: int


def living(folder: int, user: int | None) -> Iterator[Process]:
    """Every process in the open /proc ``folder``, or only those of ``user``; not the first."""
    for name in os.listdir(folder):
        if not name.isdigit() or name == _FIRST_PROCESS or _is_others(folder, name, user):
            continue
        process = find(folder, name)
        if process is not None and (user is None or process.owner == user):
            yield process


def find(folder: int, name: str) -> Process | None:
    """The process with this name in /proc; None if it has ended."""
    status = lines(folder, f"{name}/status")
    process = _process(name, status)
    if process is None:
        others = (thread for thread in _threads(folder, name) if thread != name)
        found = (_read(folder, f"{name}/task/{thread}") for thread in others)
        return next((process for process in found if process is not None), None)
    if int(_value(status, b"Threads:")) <= _FEW_THREADS:
        return process
    threads = (_read(folder, f"{name}/task/{thread}") for thread in _threads(folder, name))
    return process._replace(computing=sum(each.computing for each in threads if each is not None))


def values(content: list[bytes], names: tuple[bytes, ...]) -> list[int]:
    """The values of the lines with these names in a file of /proc, in bytes."""
    return [int(line.split()[1]) * _KIBIBYTE for line in content if line.startswith(names)]


def lines(folder: int, path: str) -> list[bytes]:
    """The lines of a file in /proc; none if its process has ended."""
    try:
        descriptor = os.open(path, os.O_RDONLY, dir_fd=folder)
    except OSError:
        return []
    try:
        with open(descriptor, "rb") as file:
            return file.readlines()
    except OSError:
        return []


def _read(folder: int, place: str) -> Process | None:
    return _process(place, lines(folder, f"{place}/status"))


def _process(place: str, status: list[bytes]) -> Process | None:
    memory = values(status, _RESIDENT)
    if not memory:
        return None
    state, owner, pending = (_value(status, name) for name in (b"State:", b"Uid:", b"SigPnd:"))
    computes = state in _COMPUTING and not int(pending, 16) & _KILLED
    return Process(place, int(owner), sum(memory), int(computes))


def _value(status: list[bytes], name: bytes) -> bytes:
    return next(line.split()[1] for line in status if line.startswith(name))


def _threads(folder: int, name: str) -> list[str]:
    try:
        opened = os.open(f"{name}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
    except OSError:
        return []
    try:
        return os.listdir(opened)  # noqa: PTH208 - of a descriptor
    except OSError:  # it has ended
        return []
    finally:
        os.close(opened)


def _is_others(folder: int, name: str, user: int | None) -> bool:
    """Quick check by the owner in /proc, which is root for processes that are not dumpable."""
    try:
        owner = os.stat(name, dir_fd=folder).st_uid
    except OSError:
        return True  # it ended
    return user is not None and owner not in (user, 0)
