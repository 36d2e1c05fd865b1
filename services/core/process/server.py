"""A server as a supervised child: polled for its exit, stopped with its whole process tree."""

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from services.core.process.runtimes import MARKER
from services.core.process.supervised import SupervisedProcess, nested_tree_name


class ServerProcess:
    """A running server, supervised by a watchdog of its own.

    Its process tree ends with `stop`, with the process that started it, and with the tree in which
    that process runs. Raises `StartFailed`.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        log: Path,
        grace_seconds: float,
    ) -> None:
        self._process = SupervisedProcess.start(
            command,
            cwd=cwd,
            env=environment,
            log=log,
            tree=nested_tree_name(environment.get(MARKER) or os.environ.get(MARKER)),
            grace_seconds=grace_seconds,
        )
        self._lock = threading.Lock()  # one thread may stop it while another polls

    @property
    def pid(self) -> int:
        """The server's process id."""
        return int(self._process.pid or 0)

    def returncode(self) -> int | None:
        """None while it runs; -N when signal N ended it."""
        self._wait(0.0)
        return self._process.returncode

    def stop(self) -> None:
        """TERM, the grace period, KILL; returns when the whole tree is gone."""
        self._process.end()
        while not self._wait(0.05):
            pass

    def _wait(self, seconds: float) -> bool:
        with self._lock:
            return self._process.wait(seconds)
