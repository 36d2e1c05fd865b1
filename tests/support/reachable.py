"""Starts a command as in a container: every user can reach given paths, nobody control groups.

    python -m tests.support.reachable PATH... -- COMMAND...

Needs root. The folders on the way to a path that are closed to others are, for the command alone,
covered by folders that hold nothing but the way to the path.
"""

import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from services.sandbox.guest import syscalls
from services.sandbox.guest.syscalls import CLONE_NEWNS, MS_BIND, MS_PRIVATE, MS_REC


def launcher(tier: str, python: Path) -> list[str]:
    """What to start a sandbox of a tier by, whose programs run this interpreter.

    In a container every user can reach it; here it may lie in a home.
    """
    if tier == "full":
        return []
    return [sys.executable, "-m", "tests.support.reachable", *way_to(python), "--"]


def main(arguments: list[str]) -> None:
    """Open the ways and become the command."""
    split = arguments.index("--")
    open_ways(arguments[:split])
    syscalls.mount("nothing", "/sys/fs/cgroup", "tmpfs", syscalls.MS_RDONLY)
    command = arguments[split + 1 :]
    os.execv(command[0], command)


def open_ways(paths: Iterable[str]) -> None:
    """Let every user reach the paths, as this thread and what it starts from now on see them."""
    syscalls.unshare(CLONE_NEWNS)
    syscalls.mount("none", "/", "", MS_REC | MS_PRIVATE)
    closed = {path: folder for path in map(Path, paths) if (folder := _closed_above(path))}
    with ExitStack() as folders:
        # All are held elsewhere first: what covers the way to one may cover another.
        kept = {path: folders.enter_context(tempfile.TemporaryDirectory()) for path in closed}
        for path, place in kept.items():
            syscalls.mount(str(path), place, "", MS_BIND | MS_REC)
        for folder in set(closed.values()):
            syscalls.mount("way", str(folder), "tmpfs", 0, "mode=755")
        for path, place in kept.items():
            path.mkdir(parents=True)
            syscalls.mount(place, str(path), "", MS_BIND | MS_REC)
            syscalls.detach(place)


def way_to(python: Path) -> list[str]:
    """The paths that programs of this interpreter must reach."""
    return [str(python.resolve().parents[1]), str(python.parents[1])]


def _closed_above(path: Path) -> Path | None:
    """The folder nearest to the root that is on the way to a path and closed to others."""
    return next(
        (folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None
    )


if __name__ == "__main__":
    main(sys.argv[1:])
