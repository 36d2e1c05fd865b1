"""Where this process's control groups are, in both versions of the kernel's interface."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath


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
