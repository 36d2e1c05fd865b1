"""A control group that accounts for a server and everything it starts."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

REMOVAL_SECONDS = 5.0


class Account(Protocol):
    """Reads the CPU time of many processes together."""

    method: str

    def add(self, pid: int) -> None:
        """Track a process and everything it starts from now on."""
        ...

    def read(self) -> tuple[float, float]:
        """Return user and system seconds so far."""
        ...


class GroupV1:
    """A cgroup v1 cpuacct group."""

    method = "cgroup cpuacct"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, pid: int) -> None:
        """Move a process into the group."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def read(self) -> tuple[float, float]:
        """Return user and system seconds of all processes that have ever been in it."""
        user, system = (
            int((self._folder / f"cpuacct.usage_{mode}").read_text()) for mode in ("user", "sys")
        )
        return user / 1e9, system / 1e9


class GroupV2(GroupV1):
    """A cgroup v2 group."""

    method = "cgroup v2 cpu.stat"

    def read(self) -> tuple[float, float]:
        """Return user and system seconds of all processes that have ever been in it."""
        lines = (self._folder / "cpu.stat").read_text().splitlines()
        values = {name: int(value) for name, value in map(str.split, lines)}
        return values["user_usec"] / 1e6, values["system_usec"] / 1e6


@contextlib.contextmanager
def new_group() -> Iterator[Account]:
    """Create an empty group for the block; raises OSError if none can be created."""
    parent, kind = _own_group()
    folder = parent / f"temper-benchmark-{os.getpid()}-{time.monotonic_ns()}"
    folder.mkdir()
    try:
        yield kind(folder)
    finally:
        _remove(folder)


def _own_group() -> tuple[Path, type[GroupV1]]:
    groups = dict(line.split(":", 2)[1:] for line in _lines("/proc/self/cgroup"))
    for line in _lines("/proc/mounts"):
        _, place, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpuacct" in options.split(","):
            own = next(path for names, path in groups.items() if "cpuacct" in names.split(","))
            return _inside(place, own), GroupV1
        if kind == "cgroup2" and place == "/sys/fs/cgroup":
            return _inside(place, groups[""]), GroupV2
    raise FileNotFoundError("no control groups are mounted")


def _inside(mount: str, group: str) -> Path:
    """Return a group's folder; in a container its path may be the host's and not exist."""
    folder = Path(mount + group)
    return folder if folder.is_dir() else Path(mount)


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + REMOVAL_SECONDS
    while folder.exists():
        try:
            folder.rmdir()
        except OSError:  # its last processes are being reaped
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()
