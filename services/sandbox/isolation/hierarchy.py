"""Cgroup hierarchies: where this process's groups are, and claiming a folder in them.

The owner of a folder holds a lock on it, which disappears with its process: an unlocked folder was
left behind by a killed service, and is removed.
"""

import errno
import fcntl
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from services.sandbox.isolation.cgroup_removal import processes_in, remove


class Controller(StrEnum):
    """A cgroup controller."""

    MEMORY = "memory"
    PIDS = "pids"
    CPU = "cpu"


@dataclass(frozen=True)
class CgroupLocation:
    """The group that this process is in, in one hierarchy.

    ``alone`` means that it is the visible root, so that everything in it belongs to this container.
    """

    folder: Path
    version: int
    controllers: frozenset[Controller]
    alone: bool


@dataclass(frozen=True)
class _Mount:
    """A mounted hierarchy: the group ``root`` is visible at ``folder``."""

    kind: str
    root: PurePosixPath
    folder: Path
    options: frozenset[str]


def own_cgroups() -> list[CgroupLocation]:
    """The groups of this process with at least one of the controllers."""
    return find_cgroup_locations(
        Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
    )


def find_cgroup_locations(groups: str, mounts: str) -> list[CgroupLocation]:
    """Parse the contents of ``/proc/PID/cgroup`` and ``/proc/PID/mountinfo``."""
    mounted = list(_mounts(mounts))
    locations = []
    for line in groups.splitlines():
        number, names, group = line.split(":", 2)
        version = 2 if number == "0" and not names else 1
        folder = _folder(mounted, version, names.split(","), PurePosixPath(group))
        if folder is not None:
            offered = names.split(",") if version == 1 else _offered(folder)
            controllers = frozenset(Controller(name) for name in offered if name in set(Controller))
            locations.append(CgroupLocation(folder, version, controllers, alone=group == "/"))
    return [location for location in locations if location.controllers]


def _mounts(text: str) -> Iterator[_Mount]:
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields, described = before.split(), after.split()
        if described[0] in {"cgroup", "cgroup2"}:
            root, folder = _unescaped(fields[3]), _unescaped(fields[4])
            options = frozenset(described[-1].split(","))
            yield _Mount(described[0], PurePosixPath(root), Path(folder), options)


def _folder(
    mounts: Sequence[_Mount], version: int, names: Sequence[str], group: PurePosixPath
) -> Path | None:
    for mount in mounts:
        fits = mount.kind == "cgroup2" if version == 2 else bool(mount.options & set(names))
        if fits and group.is_relative_to(mount.root):
            return mount.folder / group.relative_to(mount.root)
    return None


def _offered(folder: Path) -> list[str]:
    try:
        return (folder / "cgroup.controllers").read_text().split()
    except OSError:
        return []


def _unescaped(field: str) -> str:
    """Decode octal escapes, such as those for spaces."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


_HOME = "temper-services"
"""Subgroup to which the processes of the parent group are moved, because cgroup v2 allows processes
in leaves only.
"""

_TRIES = 3


@dataclass(frozen=True)
class Hierarchy:
    """A claimed folder, its controllers, and the descriptor of its lock."""

    folder: Path
    version: int
    controllers: frozenset[Controller]
    lock: int

    def release(self) -> None:
        """Remove the folder with all groups, and kill what runs in them."""
        remove(self.folder)
        os.close(self.lock)


def claim(location: CgroupLocation, prefix: str) -> Hierarchy:
    """Create and lock a folder named ``prefix``-..., and remove abandoned ones.

    In cgroup v2 a group can delegate controllers only while it has no processes. If all of them
    belong to this service or its container, they are moved to a subgroup. Raises OSError.
    """
    base = location.folder.parent if location.folder.name == _HOME else location.folder
    for abandoned in base.glob(f"{prefix}-*"):
        _remove_unlocked(abandoned)
    if location.version == 2:
        _delegate(base, location)
    for _ in range(_TRIES):
        folder = base / f"{prefix}-{uuid.uuid4().hex[:12]}"
        folder.mkdir()
        lock = _lock(folder)
        if lock is not None:
            if location.version == 2:
                _enable(folder, location)
            return Hierarchy(folder, location.version, location.controllers, lock)
    raise OSError(errno.EAGAIN, "another service keeps removing this one's groups")


def _lock(folder: Path) -> int | None:
    """Lock a folder and return the descriptor; None if it is locked by another process, or gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if folder.exists():
            return descriptor
    except BlockingIOError:
        pass
    os.close(descriptor)
    return None


def _remove_unlocked(folder: Path) -> None:
    lock = _lock(folder)
    if lock is not None:
        try:
            remove(folder)
        finally:
            os.close(lock)


def _delegate(base: Path, location: CgroupLocation) -> None:
    try:
        _enable(base, location)
    except OSError as refused:
        if refused.errno != errno.EBUSY:
            raise
        inside = processes_in(base)
        if not (location.alone or inside == [os.getpid()] or _is_delegated(base)):
            raise
        home = base / _HOME
        home.mkdir(exist_ok=True)
        for pid in inside:
            with suppress(ProcessLookupError):
                (home / "cgroup.procs").write_text(str(pid))
        _enable(base, location)


def _enable(folder: Path, location: CgroupLocation) -> None:
    control = folder / "cgroup.subtree_control"
    if not location.controllers <= set(control.read_text().split()):
        control.write_text(
            " ".join(f"+{controller}" for controller in sorted(location.controllers))
        )


def _is_delegated(folder: Path) -> bool:
    """Whether systemd has delegated the group to its user."""
    for attribute in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            return os.getxattr(folder, attribute) == b"1"
    return False
