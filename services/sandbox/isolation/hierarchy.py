"""x"""

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
    """What a control group can hold a program to."""

    MEMORY = "memory"
    PIDS = "pids"
    CPU = "cpu"


@dataclass(frozen=True)
class Place:
    """The group that this process is in, in one hierarchy of groups.

    ``alone`` says that it is the root of what this process can see: all in it is its container's.
    """

    folder: Path
    version: int
    controllers: frozenset[Controller]
    alone: bool


@dataclass(frozen=True)
class _Mount:
    """A mounted hierarchy: ``root`` is the group that is seen at ``folder``."""

    kind: str
    root: PurePosixPath
    folder: Path
    options: frozenset[str]


def own_places() -> list[Place]:
    """Return the groups of this process that any of the controllers can be used in."""
    return find_places(
        Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
    )


def find_places(groups: str, mounts: str) -> list[Place]:
    """Read them from the texts of ``/proc/PID/cgroup`` and ``/proc/PID/mountinfo``."""
    mounted = list(_mounts(mounts))
    places = []
    for line in groups.splitlines():
        number, names, group = line.split(":", 2)
        version = 2 if number == "0" and not names else 1
        folder = _folder(mounted, version, names.split(","), PurePosixPath(group))
        if folder is not None:
            offered = names.split(",") if version == 1 else _offered(folder)
            controllers = frozenset(Controller(name) for name in offered if name in set(Controller))
            places.append(Place(folder, version, controllers, alone=group == "/"))
    return [place for place in places if place.controllers]


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
    """Spaces and the like are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


_HOME = "temper-services"
"""Where services move, with what started them, so that the group they were in is without any."""

_TRIES = 3


@dataclass(frozen=True)
class Hierarchy:
    """A folder for groups, the controllers that they have, and the descriptor of its lock."""

    folder: Path
    version: int
    controllers: frozenset[Controller]
    lock: int

    def release(self) -> None:
        """Remove the folder with all groups, and end what runs in them."""
        remove(self.folder)
        os.close(self.lock)


def claim(place: Place, prefix: str) -> Hierarchy:
    """Make a folder, its name beginning with ``prefix``, at ``place``; remove abandoned ones.

    In version 2 a group hands controllers down only while no process is in it: if all processes
    here are the service's own, or its container's, they move to a group of their own beside the
    folder. Raises OSError.
    """
    base = place.folder.parent if place.folder.name == _HOME else place.folder
    for abandoned in base.glob(f"{prefix}-*"):
        _remove_unlocked(abandoned)
    if place.version == 2:
        _hand_down(base, place)
    for _ in range(_TRIES):
        folder = base / f"{prefix}-{uuid.uuid4().hex[:12]}"
        folder.mkdir()
        lock = _lock(folder)
        if lock is not None:
            if place.version == 2:
                _enable(folder, place)
            return Hierarchy(folder, place.version, place.controllers, lock)
    raise OSError(errno.EAGAIN, "other services remove what this one makes")


def _lock(folder: Path) -> int | None:
    """Return the descriptor of the folder's lock; None when it is another's, or gone."""
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


def _hand_down(base: Path, place: Place) -> None:
    try:
        _enable(base, place)
    except OSError as refused:
        if refused.errno != errno.EBUSY:
            raise
        inside = processes_in(base)
        if not (place.alone or inside == [os.getpid()] or _is_delegated(base)):
            raise
        home = base / _HOME
        home.mkdir(exist_ok=True)
        for pid in inside:
            with suppress(ProcessLookupError):
                (home / "cgroup.procs").write_text(str(pid))
        _enable(base, place)


def _enable(folder: Path, place: Place) -> None:
    control = folder / "cgroup.subtree_control"
    if not place.controllers <= set(control.read_text().split()):
        control.write_text(" ".join(f"+{controller}" for controller in sorted(place.controllers)))


def _is_delegated(folder: Path) -> bool:
    """Whether systemd has given the group, with all in it, to whom it runs for."""
    for attribute in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            return os.getxattr(folder, attribute) == b"1"
    return False
