"""Run a child whose whole process tree ends with its worker, its lease, or on request.

Every process of a tree carries the tree's name in an environment variable, by which it is found
when its watchdog was killed.
"""

import json
import math
import os
import secrets
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import quote, unquote

from services.contracts.errors import TemperError
from services.core.process.runtimes import MARKER

WATCHDOG = Path(__file__).with_name("watchdog.py")
START_SECONDS = 30.0


def lease_clock() -> float:
    """Seconds on CLOCK_BOOTTIME: the same for all processes of a host, monotonic, and running
    while the machine is suspended, because other hosts' claims on the same jobs run too.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class StartFailed(TemperError):
    """A child could not be started."""

    code = "start_failed"


class SupervisedProcess:
    """A child with its watchdog.

    ``returncode`` is the child's, as in `subprocess` (-N: killed by signal N), or None while the
    tree runs; afterwards no process of it is left. ``expired``: it was stopped because its lease
    ran out; ``unsupervised``: its watchdog was killed, so that it was killed too; ``exhausted``:
    it was killed because it held too much memory (``tree``) or the machine had none (``machine``).
    """

    def __init__(
        self, watchdog: "subprocess.Popen[bytes]", tree: str, note: Path | None = None
    ) -> None:
        self._watchdog = watchdog
        self._tree = tree
        self._note = note
        self._answers = b""
        self._selector = selectors.DefaultSelector()
        self._commands = cast("IO[bytes]", watchdog.stdin)
        self._reports = cast("IO[bytes]", watchdog.stdout)
        self._selector.register(self._reports, selectors.EVENT_READ)
        self.pid: int | None = None
        self.returncode: int | None = None
        self.expired = False
        self.unsupervised = False
        self.exhausted: str | None = None
        self._error: str | None = None
        self._ending = False

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        tree: str,
        deadline: float = math.inf,
        grace_seconds: float,
        memory_bytes: int | None = None,
        tree_memory_bytes: int | None = None,
        notes: Path | None = None,
    ) -> "SupervisedProcess":
        """Start ``command`` in the tree named ``tree``; its output is appended to ``log``.

        It may run until ``deadline`` on the `lease_clock`; after that nothing is started and the
        process has expired. ``memory_bytes`` limits the data of each process of the tree
        (RLIMIT_DATA), ``tree_memory_bytes`` the memory of all of them. The folder ``notes`` has a
        note of the tree (see `noted_tree`) from before the start until none of its processes is
        left. Raises `StartFailed`.
        """
        note = _write_note(notes, tree) if notes is not None else None
        limits = [deadline, grace_seconds, memory_bytes or 0, tree_memory_bytes or 0]
        arguments = [str(log), *map(str, limits), *command]
        watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WATCHDOG), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=cwd,
            env={**env, MARKER: tree},
            start_new_session=True,
        )
        process = cls(watchdog, tree, note)
        if note is not None:
            process._send(f"note {note}")
        give_up = time.monotonic() + START_SECONDS
        while process.pid is None and process.returncode is None:
            if time.monotonic() > give_up:
                kill_tree(tree)
                process._close()
                raise StartFailed(f"{command[0]} did not start within {START_SECONDS:.0f} s")
            process.wait(0.1)
        if process.pid is None and not process.expired:
            raise StartFailed(f"{command[0]} could not be started: {process._error}")
        return process

    def wait(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds; true when the whole tree has ended."""
        if self.returncode is not None:
            return True
        if self._selector.select(timeout):
            received = os.read(self._reports.fileno(), 4096)
            if not received:
                self._close()
                return True
            *lines, self._answers = (self._answers + received).split(b"\n")
            for line in lines:
                self._receive(json.loads(line))
        return self.returncode is not None

    def renew(self, deadline: float) -> None:
        """Extend the deadline, on the `lease_clock`."""
        self._send(f"renew {deadline}")

    def end(self) -> None:
        """Stop the tree: TERM, grace period, KILL. Returns immediately; then `wait`."""
        if not self._ending:
            self._send("end")
        self._ending = True

    def _send(self, command: str) -> None:
        try:
            self._commands.write(command.encode() + b"\n")
            self._commands.flush()
        except (BrokenPipeError, ValueError):
            return  # it has ended, which wait() reports

    def _receive(self, answer: dict[str, Any]) -> None:
        if "returncode" in answer:
            self.expired = bool(answer["expired"])
            self.exhausted = answer["exhausted"]
            self._close(answer["returncode"])
        else:
            self.pid = answer.get("pid")
            self._error = answer.get("error")

    def _close(self, returncode: int | None = None) -> None:
        self._selector.close()
        with suppress(BrokenPipeError):
            self._commands.close()
        self._reports.close()
        code = self._watchdog.wait()
        if returncode is None:  # the watchdog itself was killed
            self.unsupervised = True
            kill_tree(self._tree, session=self.pid)
        if self._note is not None:
            self._note.unlink(missing_ok=True)
        self.returncode = code if returncode is None else returncode


KILL_SECONDS = 30.0
"""Longest wait for killed processes: one blocked in a driver never exits."""


class TreeRemains(TemperError):
    """Killed processes of an earlier attempt do not exit."""

    code = "process_remains"


def tree_name(job_id: str, epoch: int) -> str:
    """The name of the process tree of one claim."""
    return f"{job_id}:{epoch}"


def _write_note(folder: Path, tree: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / f"{quote(tree, safe='')}.{secrets.token_hex(6)}"
    note.touch()
    return note


def noted_tree(note: Path) -> str:
    """The outermost tree that contains the note's tree."""
    return unquote(note.name.rpartition(".")[0]).partition("/")[0]


def nested_tree_name(outer: str | None) -> str:
    """A fresh name for a tree nested in ``outer``: killing that one kills both."""
    return f"{outer or 'temper'}/{secrets.token_hex(6)}"


def kill_tree(tree: str, session: int | None = None) -> int:
    """Kill every process of this host in ``tree`` or a tree nested in it; return how many.

    Those of ``session`` are killed too: a process that sets its title, as vLLM's engine does,
    overwrites the environment that names its tree.
    """
    return _kill_trees(lambda name: name == tree or name.startswith(f"{tree}/"), session)


def tree_processes(tree: str) -> list[int]:
    """The IDs of this host's processes in ``tree`` or a tree nested in it."""
    return _marked_processes(lambda name: name == tree or name.startswith(f"{tree}/"))


def kill_earlier_trees(job_id: str, epoch: int) -> int:
    """Kill what earlier claims of a job left on this host; return the number of processes.

    For trees whose watchdog was killed with its worker. Later claims than ``epoch`` are spared: a
    worker that was suspended must not kill the work of the one that took over.
    """
    earlier = {tree_name(job_id, number) for number in range(epoch)}
    return _kill_trees(lambda name: name.partition("/")[0] in earlier)


def _kill_trees(selected: Callable[[str], bool], session: int | None = None) -> int:
    """Kill until a scan finds none: processes may fork during the scan."""
    killed: set[int] = set()
    give_up = time.monotonic() + KILL_SECONDS
    while found := {*_marked_processes(selected), *_session_processes(session)} - {os.getpid()}:
        if time.monotonic() > give_up:
            raise TreeRemains(f"killed processes do not exit: {sorted(found)}")
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
        # Any process of the machine, even a sandboxed program, may have any bytes there.
        values = [line.removeprefix(mark) for line in variables if line.startswith(mark)]
        names = [value.decode(errors="replace") for value in values]
        if any(wanted(name) for name in names):
            found.append(int(entry.name))
    return found


def _session_processes(session: int | None) -> list[int]:
    """The live processes of a session."""
    found = []
    for entry in Path("/proc").iterdir() if session else ():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may be any bytes; fields follow the last parenthesis.
            state, _, _, leader = (entry / "stat").read_bytes().rpartition(b")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != b"Z" and int(leader) == session:
            found.append(int(entry.name))
    return found
