"""Resource accounting of a run that no control group bounds; sampled by its slot."""

import contextlib
import enum
import os
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from services.sandbox.guest.files import MAX_DEPTH, walk
from services.sandbox.guest.processes import PAGE_TABLES, find, lines, living, values

LONGEST_SECONDS = 1.0
_LONGEST_WAIT_SECONDS = 4.0
_LOOK_SECONDS = 0.1
SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.25
_SHRINK_SHARE = 1 / 32
BLOCK = 512
"""Unit of st_blocks, in bytes."""
_REMOVED = b" (deleted)"
_SOCKET = b"socket:["
_SOCKET_BYTES = 2 * 212_992
"""The highest SO_SNDBUF that the kernel's default settings allow, with its overhead."""
_MORE_THAN_THERE_IS = 1 << 62
_PROCESSORS = os.cpu_count() or 1
_USUAL = 64
_LASTING_SECONDS = 0.1
_SHARES = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")


class DiskUsage(NamedTuple):
    """Bytes and number of files."""

    size: int
    number: int


class UnlinkedFiles(NamedTuple):
    """Bytes of unlinked files: in memory (of these, in /dev/shm) and on disk."""

    memory: int
    disk: int
    in_shared_memory: int = 0

    def as_text(self) -> str:
        """Its numbers; `of_text` reads them."""
        return " ".join(map(str, self))

    @classmethod
    def of_text(cls, text: str) -> "UnlinkedFiles":
        """What `as_text` has written."""
        return cls(*map(int, text.split()))


class ForkBomb(Exception):
    """A run has so many computing processes or threads that others would wait for seconds."""


class Resident(NamedTuple):
    """Bytes of processes, counting shared pages once per process, number of processes, and how many
    of them, or of their many threads, compute."""

    memory: int
    processes: int
    computing: int

    def exclusive(self, inherited: int) -> int | None:
        """The bytes used by a single process alone, without the ``inherited`` ones of its slot.

        None for several processes, which share an unknown part of their pages.
        """
        return max(0, self.memory - inherited) if self.processes <= 1 else None


class ForkBombWatch:
    """Distinguishes a fork bomb from a program that starts or ends many processes.

    In a fork bomb more than half of the allowed processes compute, and keep computing. Up to 64, or
    two per processor, are normal.
    """

    def __init__(self, max_processes: int) -> None:
        self._most = max(max_processes / 2, _USUAL, 2 * _PROCESSORS)
        self._since: float | None = None

    @property
    def suspects(self) -> bool:
        """Whether the next check should follow soon."""
        return self._since is not None

    def check(self, resident: Resident) -> None:
        """Raise `ForkBomb` if too many compute at every check for a tenth of a second."""
        if resident.computing <= self._most:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > _LASTING_SECONDS:
            raise ForkBomb


def own_anonymous_memory() -> int:
    """Bytes of this process's anonymous memory."""
    processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        itself = find(processes, "self")
        return 0 if itself is None else itself.memory
    finally:
        os.close(processes)


def resident_memory(processes: int, user: int | None) -> Resident:
    """Sum over the processes in the open /proc ``processes``, or only those of ``user``."""
    found = list(living(processes, user))
    return Resident(
        memory=sum(process.memory for process in found),
        processes=len(found),
        computing=sum(process.computing for process in found),
    )


def private_memory(processes: int, user: int | None, limit: int) -> int:
    """The same with shared pages divided among their users; slow, and exact up to ``limit``.

    The caller must be allowed to inspect the processes, and waits for one that holds its map of
    memory. Those that are not dumpable, and those left after `LONGEST_SECONDS` of processor time,
    or four times as long on a busy machine, count with everything resident.
    """
    total = 0
    computed, end = time.thread_time() + LONGEST_SECONDS, time.monotonic() + _LONGEST_WAIT_SECONDS
    for process in living(processes, user):
        if total > limit:
            break
        is_late = time.thread_time() > computed or time.monotonic() > end
        share = 0 if is_late else _share(processes, process.place)
        if share or find(processes, process.place) is not None:  # else it has died meanwhile
            total += share or process.memory
    return total


def _share(processes: int, place: str) -> int:
    """Bytes of a process with shared pages divided among their users; 0 if it is not dumpable."""
    shares = values(lines(processes, f"{place}/smaps_rollup"), _SHARES)
    page_tables = values(lines(processes, f"{place}/status"), PAGE_TABLES)
    return sum(shares + page_tables) if shares else 0


def pause_after(seconds: float) -> float:
    """Pause after a sample that took ``seconds``: proportional, within bounds."""
    return min(_LONGEST_PAUSE, max(SHORTEST_PAUSE, 10 * seconds))


class SharedSpace:
    """The free space of a file system that runs share, as seen from an open folder in it."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._reference = self.left()

    def left(self) -> int:
        """Bytes that are free for programs."""
        system = os.fstatvfs(self._folder)
        return system.f_bavail * system.f_frsize

    def is_shrinking(self) -> bool:
        """Whether much was used up since the last call that returned True, or since the maximum."""
        left = self.left()
        is_shrinking = left < self._reference * (1 - _SHRINK_SHARE)
        if is_shrinking or left > self._reference:
            self._reference = left
        return is_shrinking


class UnlinkedFileMonitor:
    """Finds unlinked files, at intervals because it is slow."""

    def __init__(self, find: Callable[[], UnlinkedFiles]) -> None:
        self._find = find
        self.latest = UnlinkedFiles(0, 0)
        self._next = 0.0

    def found(self, *, afresh: bool = False) -> UnlinkedFiles:
        """The latest measurement, or one made now."""
        start = time.monotonic()
        if afresh or start >= self._next:
            self.latest = self._find()
            spent = time.monotonic() - start
            self._next = time.monotonic() + max(_LOOK_SECONDS, pause_after(spent))
        return self.latest


def unlinked_files(processes: int, user: int | None) -> UnlinkedFiles:
    """Sum over files that no folder lists: unlinked but open or mapped ones, and shared memory.

    The caller must be allowed to inspect the processes, and waits for one that holds its map of
    memory; one that is not dumpable counts as using more than there is. A mapping counts with its
    full length, because untouched pages may exist, and a socket with the most that it buffers.
    """
    sizes: dict[tuple[_Kind, int, int], int] = {}
    for process in living(processes, user):
        place = process.place
        try:
            removed = *_removed_mappings(processes, place), *_removed_open(processes, place)
            for found, size in removed:
                sizes[found] = max(sizes.get(found, 0), size)
        except PermissionError:
            if find(processes, place) is None:
                continue  # it ended: without memory its files are root's
            return UnlinkedFiles(_MORE_THAN_THERE_IS, 0)
        except OSError:
            continue  # it ended
    of_kind = dict.fromkeys(_Kind, 0)
    for (kind, _, _), size in sizes.items():
        of_kind[kind] += size
    shared = of_kind[_Kind.SHARED_MEMORY]
    return UnlinkedFiles(of_kind[_Kind.MEMORY] + shared, of_kind[_Kind.DISK], shared)


class _Kind(enum.Enum):
    """Where an unlinked file is."""

    DISK = enum.auto()
    MEMORY = enum.auto()
    SHARED_MEMORY = enum.auto()


def _removed_mappings(processes: int, place: str) -> Iterator[tuple[tuple[_Kind, int, int], int]]:
    lengths: dict[tuple[_Kind, int, int], int] = {}
    for line in lines(processes, f"{place}/maps"):
        if not line.endswith(_REMOVED + b"\n"):
            continue
        area, _, _, device, inode, path = line.split(maxsplit=5)
        major, minor = (int(number, 16) for number in device.split(b":"))
        start, end = (int(number, 16) for number in area.split(b"-"))
        key = (_kind(path), os.makedev(major, minor), int(inode))
        lengths[key] = lengths.get(key, 0) + end - start
    yield from lengths.items()


def _removed_open(processes: int, place: str) -> Iterator[tuple[tuple[_Kind, int, int], int]]:
    folder = os.open(f"{place}/fd", os.O_RDONLY | os.O_DIRECTORY, dir_fd=processes)
    try:
        for name in os.listdir(folder):  # noqa: PTH208 - of a descriptor
            with contextlib.suppress(FileNotFoundError):  # it was closed in the meantime
                path = os.readlink(os.fsencode(name), dir_fd=folder)
                if path.startswith(_SOCKET):
                    yield (_Kind.MEMORY, 0, int(path[len(_SOCKET) : -1])), _SOCKET_BYTES
                elif path.endswith(_REMOVED):
                    status = os.stat(name, dir_fd=folder)
                    key = (_kind(path), status.st_dev, status.st_ino)
                    yield key, status.st_blocks * BLOCK
    finally:
        os.close(folder)


def _kind(path: bytes) -> _Kind:
    if path.startswith(b"/dev/shm/"):
        return _Kind.SHARED_MEMORY
    is_memory = path.startswith((b"/dev/zero", b"/memfd:", b"/SYSV"))
    return _Kind.MEMORY if is_memory else _Kind.DISK


def has_processes(user: int) -> bool:
    """Whether any process on this machine runs as the user."""
    processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        return any(living(processes, user))
    finally:
        os.close(processes)


def disk_usage(folder: int, most: int) -> DiskUsage:
    """Disk usage below an open folder; stops after ``most`` files, or in a very deep tree."""
    size, number = 0, 0
    for path, entry in walk(folder):
        with contextlib.suppress(OSError):  # it was removed in the meantime
            size += entry.stat(follow_symlinks=False).st_blocks * BLOCK
        number += 1
        if path.count("/") == MAX_DEPTH:
            number = most + 1
        if number > most:
            break
    return DiskUsage(size, number)
