"""Processes identified by pid and start time, so that a reused pid is never mistaken."""

import os
import signal
import time
from pathlib import Path

from pydantic import BaseModel

POLL_SECONDS = 0.05
KILL_SECONDS = 5.0


class ProcessIdentity(BaseModel):
    """A process: its pid, and its start time in clock ticks since boot."""

    pid: int
    started: int

    @property
    def is_alive(self) -> bool:
        """Whether this process still runs; a zombie does not."""
        stat = _stat(self.pid)
        return stat is not None and stat.started == self.started and stat.state != "Z"


class _Stat(BaseModel):
    state: str
    group: int
    started: int


def identify(pid: int) -> ProcessIdentity:
    """Return the identity of a running process; raise ProcessLookupError if there is none."""
    stat = _stat(pid)
    if stat is None:
        raise ProcessLookupError(f"no process {pid}")
    return ProcessIdentity(pid=pid, started=stat.started)


def signal_group(leader: ProcessIdentity, number: signal.Signals) -> bool:
    """Signal a leader's process group; return whether it still existed."""
    try:
        os.killpg(leader.pid, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # what is left of it runs as another user
    return True


def end_group(leader: ProcessIdentity, grace_seconds: float) -> bool:
    """Stop a process group: SIGTERM, the grace period, then SIGKILL for what is left.

    Return whether it exited within the grace period. The process must lead its own group. If it
    has exited, nothing is signaled, even if its pid was reused.
    """
    if not leader.is_alive:
        return True
    signal_group(leader, signal.SIGTERM)
    if _gone(leader.pid, grace_seconds):
        return True
    signal_group(leader, signal.SIGKILL)
    _gone(leader.pid, KILL_SECONDS)
    return False


def _gone(group: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while group_members(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def group_members(group: int) -> list[int]:
    """Return the pids of a group's running processes."""
    numbers = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    found = []
    for pid in numbers:
        stat = _stat(pid)
        if stat is not None and stat.group == group and stat.state != "Z":
            found.append(pid)
    return found


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command name is in parentheses and may contain any bytes, parentheses included.
    fields = text.rpartition(")")[2].split()
    return _Stat(state=fields[0], group=int(fields[2]), started=int(fields[19]))
