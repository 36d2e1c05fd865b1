"""A server's process and everything it starts, within the caller's process group."""

import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil


class ServerProcess:
    """A running child. It stays in our process group, so whoever ends the group ends it too."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: Path
    ) -> None:
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=dict(environment),
            )
        self._descendants: set[psutil.Process] = set()

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def returncode(self) -> int | None:
        """None while it runs; -N when signal N ended it."""
        return self._process.poll()

    def remember_descendants(self) -> None:
        """Note what it has started; an orphan cannot be found any more once it is one."""
        with suppress(psutil.NoSuchProcess):
            self._descendants.update(psutil.Process(self.pid).children(recursive=True))

    def stop(self, grace_seconds: float) -> None:
        """Ask it to end, wait, kill what is left of its tree, and wait until it is gone."""
        self.remember_descendants()
        if self._process.poll() is None:
            self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_seconds)
        left = [process for process in self._descendants if process.is_running()]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        psutil.wait_procs(left, timeout=grace_seconds)
