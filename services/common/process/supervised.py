"""Running a child whose whole process tree ends with its worker, its lease, or on request."""

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, cast

from services.common.errors import TemperError

WATCHDOG = Path(__file__).with_name("watchdog.py")
START_SECONDS = 30.0
MARKER = "TEMPER_PROCESS_TREE"
"""Variable that every process of a tree inherits; its value names the job."""


class StartFailed(TemperError):
    """A child could not be started."""

    code = "start_failed"


class SupervisedProcess:
    """A child behind its watchdog.

    ``returncode`` is that of the child, as `subprocess` gives it (-N: killed by signal N), or
    None while it runs. After the end nothing of its tree is left.
    """

    def __init__(self, watchdog: "subprocess.Popen[bytes]", tree: str) -> None:
        self._watchdog = watchdog
        self._tree = tree
        self._answers = b""
        self._selector = selectors.DefaultSelector()
        self._commands = cast("IO[bytes]", watchdog.stdin)
        self._reports = cast("IO[bytes]", watchdog.stdout)
        self._selector.register(self._reports, selectors.EVENT_READ)
        self.pid: int | None = None
        self.returncode: int | None = None

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        tree: str,
        lease_seconds: float,
        grace_seconds: float,
    ) -> "SupervisedProcess":
        """Start ``command``; its output is appended to ``log``. ``tree`` names the job."""
        arguments = [str(log), str(lease_seconds), str(grace_seconds), *command]
        watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WATCHDOG), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=cwd,
            env={**env, MARKER: tree},
            start_new_session=True,
        )
        process = cls(watchdog, tree)
        deadline = time.monotonic() + START_SECONDS
        while process.pid is None and process.returncode is None:
            if time.monotonic() > deadline:
                process.end()
                raise StartFailed(f"{command[0]} did not start within {START_SECONDS:.0f} s")
            process.wait(0.1)
        if process.pid is None:
            raise StartFailed(f"{command[0]} could not be started; see {log.name}")
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
                self._take(json.loads(line))
        return self.returncode is not None

    def renew(self, seconds: float) -> None:
        """Let the tree live for ``seconds`` from now."""
        self._tell(f"renew {seconds}")

    def end(self) -> None:
        """Ask the tree to end: TERM, the grace period, KILL. Returns at once; then `wait`."""
        self._tell("end")

    def _tell(self, command: str) -> None:
        try:
            self._commands.write(command.encode() + b"\n")
            self._commands.flush()
        except (BrokenPipeError, ValueError):
            return  # it has ended; wait() says so

    def _take(self, answer: dict[str, int]) -> None:
        if "pid" in answer:
            self.pid = answer["pid"]
        else:
            self._close(answer["returncode"])

    def _close(self, returncode: int | None = None) -> None:
        self._selector.close()
        with suppress(BrokenPipeError):
            self._commands.close()
        self._reports.close()
        code = self._watchdog.wait()
        if returncode is None:  # the watchdog itself was killed: nobody else cleans up
            kill_tree(self._tree)
        self.returncode = code if returncode is None else returncode


def kill_tree(tree: str) -> int:
    """Kill every process of this host that carries the marker ``tree``; return how many.

    For trees whose watchdog was killed with its worker. New processes can appear while others
    are killed, so it repeats until a scan finds none.
    """
    marker = f"{MARKER}={tree}".encode()
    killed: set[int] = set()
    while found := {pid for pid in _processes_with(marker) if pid != os.getpid()}:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        killed |= found
        time.sleep(0.02)
    return len(killed)


def _processes_with(variable: bytes) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if variable in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found
