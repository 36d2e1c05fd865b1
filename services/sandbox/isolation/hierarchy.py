"""Taking hold of a folder that control groups can be made in.

The owner of a folder holds a lock on it, which ends with the owner however that ends: a folder
without a lock was left behind by a service that was killed, and is removed.
"""

import errno
import fcntl
import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from services.sandbox.isolation.cgroup_removal import processes_in, remove
from services.sandbox.isolation.controllers import Controller, Place

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
