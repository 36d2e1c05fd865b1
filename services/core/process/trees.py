"""Process trees by the mark that every process of one inherits, for when their owner is gone."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from services.contracts.errors import TemperError

MARKER = "TEMPER_PROCESS_TREE"
"""Variable that every process of a tree inherits; its value is the name of the tree."""

KILL_SECONDS = 30.0
"""How long killed processes are waited for: one in the hands of a hanging driver never ends."""


class TreeRemains(TemperError):
    """Processes of an earlier attempt do not end, though they were killed."""

    code = "process_remains"


def tree_name(job_id: str, epoch: int) -> str:
    """The name of the process tree of one claim."""
    return f"{job_id}:{epoch}"


def kill_tree(tree: str) -> int:
    """Kill every process of this host that carries the mark of ``tree``; return how many."""
    return _kill_trees(lambda name: name == tree)


def kill_earlier_trees(job_id: str, epoch: int) -> int:
    """Kill what earlier claims of a job left on this host; return how many processes that was.

    For trees whose watchdog was killed with its worker. Claims later than ``epoch`` are spared:
    a worker that was stopped and goes on must not kill the work of the one that took over.
    """
    earlier = {tree_name(job_id, number) for number in range(epoch)}
    return _kill_trees(lambda name: name in earlier)


def _kill_trees(doomed: Callable[[str], bool]) -> int:
    """Kill until a scan finds none, because new processes can appear meanwhile."""
    killed: set[int] = set()
    patience = time.monotonic() + KILL_SECONDS
    while found := {pid for pid in _marked_processes(doomed) if pid != os.getpid()}:
        if time.monotonic() > patience:
            raise TreeRemains(f"killed processes do not end: {sorted(found)}")
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
        time.sleep(0.02)
    return len(killed)


def _marked_processes(wanted: Callable[[str], bool]) -> list[int]:
    mark = f"{MARKER}=".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        # Any process of the machine may carry anything there: programs of the sandbox, too.
        values = [line.removeprefix(mark) for line in variables if line.startswith(mark)]
        names = [value.decode(errors="replace") for value in values]
        if any(wanted(name) for name in names):
            found.append(int(entry.name))
    return found
