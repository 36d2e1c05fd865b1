"""The resources a running service uses."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

SHARED_FOLDERS = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
NETWORKS = "/run/netns"
"""Where networks get their names, by mounts: another test may make some meanwhile."""

GONE = (FileNotFoundError, ProcessLookupError)
"""Errors of reading a process that has meanwhile ended or closed the file."""


@dataclass(frozen=True)
class Footprint:
    """What must be the same before and after any number of programs.

    The tuples have an entry for each process or cgroup folder, in ascending order.
    """

    processes: int
    threads_below: tuple[int, ...]
    descriptors: tuple[int, ...]
    mounts: tuple[int, ...]
    host_mounts: int
    groups: tuple[int, ...]
    files: tuple[str, ...]
    strays: tuple[str, ...]


@dataclass(frozen=True)
class Memory:
    """Bytes of anonymous memory: of all processes, and charged to the programs' control groups."""

    processes: int
    groups: int


def footprint(
    service: int, groups: Iterable[Path], folders: Iterable[Path], token: str
) -> Footprint:
    """Measure an idle service.

    ``groups`` are its cgroup folders and ``folders`` all others it may write to; ``token`` is in
    the name of every file that a program tried to write elsewhere.
    """
    pids = [process.pid for process in tree(service)]
    return Footprint(
        processes=len(pids),
        threads_below=_each(_entries(f"/proc/{pid}/task") for pid in pids if pid != service),
        descriptors=_each(_entries(f"/proc/{pid}/fd") for pid in pids),
        mounts=_each(_mounts(pid) for pid in pids),
        host_mounts=host_mounts(),
        groups=_each(sum(len(names) for _, names, _ in os.walk(folder)) for folder in groups),
        files=tuple(sorted(str(path) for folder in folders for path in folder.rglob("*"))),
        strays=tuple(
            sorted(
                str(path)
                for folder in SHARED_FOLDERS
                for path in folder.iterdir()
                if token in path.name
            )
        ),
    )


def memory(service: int, groups: Iterable[Path]) -> Memory:
    """The memory of an idle service."""
    return Memory(
        processes=sum(_proportional_set_size(process.pid) for process in tree(service)),
        groups=sum(_charged(folder) for folder in groups),
    )


def tree(pid: int) -> list[psutil.Process]:
    """A process and its descendants."""
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that are alive."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def preparing(service: int) -> list[int]:
    """The processes of a service that prepare what compilers read."""
    found = []
    for process in psutil.Process(service).children():
        with suppress(psutil.NoSuchProcess):
            if "services.sandbox.languages.preparation" in process.cmdline():
                found.append(process.pid)
    return found


def host_mounts() -> int:
    """Number of entries visible to this process."""
    return _mounts(os.getpid())


def group_folders(service: int) -> tuple[Path, ...]:
    """The control group folders of a service, which keeps them open."""
    opened = set[Path]()
    for entry in Path(f"/proc/{service}/fd").iterdir():
        with suppress(*GONE):
            opened.add(entry.readlink())
    return tuple(
        sorted(path for path in opened if path.is_relative_to("/sys/fs/cgroup") and path.is_dir())
    )


def slots(groups: Iterable[Path]) -> set[str]:
    """The service's slots: each has its own group in every folder."""
    return {entry.name for folder in groups for entry in folder.iterdir() if entry.is_dir()}


def _charged(folder: Path) -> int:
    # Without cached files: which of them the kernel can take back is up to who else reads them.
    for usage, cache, shared in (
        ("memory.usage_in_bytes", "total_cache", "total_shmem"),
        ("memory.current", "file", "shmem"),
    ):
        if (folder / usage).exists():
            lines = (folder / "memory.stat").read_text().splitlines()
            counted = {name: int(value) for name, value in (line.split() for line in lines)}
            return int((folder / usage).read_text()) - (counted[cache] - counted[shared])
    return 0


def _proportional_set_size(pid: int) -> int:
    # Without files: the share in them grows when another service, which has mapped them too, ends.
    kinds = ("Pss_Anon:", "Pss_Shmem:")
    with suppress(*GONE):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(kinds))
    return 0


def _entries(folder: str) -> int:
    with suppress(*GONE):
        return sum(1 for _ in Path(folder).iterdir())
    return 0


def _mounts(pid: int) -> int:
    with suppress(*GONE):
        lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
        return sum(not line.split()[4].startswith(NETWORKS) for line in lines)
    return 0


def _each(numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(numbers))
