"""Runs a command as in a container: all users reach the given paths, none the control groups.

    python -m tests.support.programs.reachable PATH... -- COMMAND...

Needs root. In a mount namespace of the command, a parent folder that other users may not enter is
replaced by an empty one, into which only the given path is mounted.
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
    """The command prefix for a sandbox of a tier whose programs run this interpreter.

    In a container all users can reach the interpreter; here it may be in a private home.
    """
    if tier == "full":
        return []
    return [
        sys.executable,
        "-m",
        "tests.support.programs.reachable",
        *folders_to_open(python),
        "--",
    ]


def main(arguments: list[str]) -> None:
    """Make the paths reachable and execute the command."""
    split = arguments.index("--")
    make_reachable(arguments[:split])
    syscalls.mount("nothing", "/sys/fs/cgroup", "tmpfs", syscalls.MS_RDONLY)
    command = arguments[split + 1 :]
    os.execv(command[0], command)


def make_reachable(paths: Iterable[str]) -> None:
    """Let all users reach the paths, in a new mount namespace of this thread and its children."""
    syscalls.unshare(CLONE_NEWNS)
    syscalls.mount("none", "/", "", MS_REC | MS_PRIVATE)
    closed = {path: folder for path in map(Path, paths) if (folder := _topmost_closed_folder(path))}
    with ExitStack() as folders:
        # All are bound elsewhere first: the folder mounted over one may hide another.
        kept = {path: folders.enter_context(tempfile.TemporaryDirectory()) for path in closed}
        for path, place in kept.items():
            syscalls.mount(str(path), place, "", MS_BIND | MS_REC)
        for folder in set(closed.values()):
            syscalls.mount("way", str(folder), "tmpfs", 0, "mode=755")
        for path, place in kept.items():
            path.mkdir(parents=True)
            syscalls.mount(place, str(path), "", MS_BIND | MS_REC)
            syscalls.detach(place)


def folders_to_open(python: Path) -> list[str]:
    """The folders that programs of this interpreter must reach."""
    return [str(python.resolve().parents[1]), str(python.parents[1])]


def _topmost_closed_folder(path: Path) -> Path | None:
    """The topmost parent of a path that other users may not enter."""
    return next(
        (folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None
    )


if __name__ == "__main__":
    main(sys.argv[1:])
