"""What the workers of a host know for certain about each other: which were killed, and which of
their processes may still run.

A worker has a folder ``home/workers/ID`` with its identity, and in it a note for each process tree
that it started, which the tree's watchdog removes once no process of the tree is left. A job of a
dead worker without a note may restart immediately, without waiting for the lease to expire.
Whatever cannot be known (a worker of another host or container, a killed watchdog) is left to the
lease.
"""

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from services.core.db.engine import Database
from services.core.process.supervised import noted_tree
from services.jobs.reconcile import recover_from
from services.jobs.workers import RETENTION_SECONDS, is_needed, remove_worker

IDENTITY = "identity.json"


@dataclass(frozen=True)
class Identity:
    """A process, globally unique across hosts and time.

    ``scope`` is the boot of a host and the namespaces in which ``pid`` and ``started``, in clock
    ticks since that boot, have a meaning.
    """

    scope: str
    pid: int
    started: int

    @classmethod
    def own(cls) -> "Identity":
        """The identity of this process."""
        _, started = _state(os.getpid()) or ("", 0)
        return cls(own_scope(), os.getpid(), started)

    def is_dead(self) -> bool:
        """Whether the process has ended for certain; false where this process cannot know."""
        if self.scope != own_scope() or not self.started:
            return False
        state = _state(self.pid)
        if state is None:
            return _is_unknown(self.pid)  # /proc may hide processes
        return state[1] != self.started or state[0] in "ZX"


def own_scope() -> str:
    """The boot of this host, and this process's namespaces of process ids and of times."""
    namespaces = [str(Path("/proc/self/ns/pid").readlink())]
    with suppress(FileNotFoundError):  # older kernels have no namespaces of times
        namespaces.append(str(Path("/proc/self/ns/time").readlink()))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return " ".join([boot, *namespaces])


def _state(pid: int) -> tuple[str, int] | None:
    """State and start time of a process; None when it is not visible."""
    try:
        # The name in parentheses may be any bytes; fields follow the last parenthesis.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0].decode(), int(fields[19])


def _is_unknown(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # a process of another user
    return False


class Presence:
    """The folder of one worker, in ``folder`` of all workers."""

    def __init__(self, folder: Path, worker_id: str) -> None:
        self.notes = folder / quote(worker_id, safe="")

    def enter(self) -> None:
        """Record who this worker is, before it claims anything."""
        self.notes.mkdir(parents=True, exist_ok=True)
        own = Identity.own()
        whole = self.notes / f"{IDENTITY}.new"
        whole.write_text(json.dumps(vars(own)))
        whole.rename(self.notes / IDENTITY)

    def leave(self) -> None:
        """Remove the folder of a worker that has stopped its jobs."""
        shutil.rmtree(self.notes, ignore_errors=True)


def take_from_dead_workers(
    database: Database, folder: Path, is_dead: Callable[[Identity], bool] = Identity.is_dead
) -> int:
    """Requeue the jobs of killed workers of this host whose processes have ended; return how many.

    Folders that are of no further use are removed.
    """
    taken = 0
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        worker_id = unquote(entry.name)
        identity = _identity(entry)
        if identity is not None and is_dead(identity):
            # Nothing can be added by a dead worker: what has no note now has ended.
            running = {noted_tree(note) for note in entry.iterdir() if note.name != IDENTITY}
            with database.write() as session:
                taken += recover_from(session, worker_id, running)
                if running:
                    continue
                remove_worker(session, worker_id)
            shutil.rmtree(entry, ignore_errors=True)
        elif _age(entry) > RETENTION_SECONDS:
            with database.read() as session:
                needed = is_needed(session, worker_id)
            if not needed:
                shutil.rmtree(entry, ignore_errors=True)
    return taken


def _identity(entry: Path) -> Identity | None:
    try:
        return Identity(**json.loads((entry / IDENTITY).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _age(entry: Path) -> float:
    try:
        return time.time() - entry.stat().st_mtime
    except FileNotFoundError:
        return 0.0
