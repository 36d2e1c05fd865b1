"""Doorbells: named pipes by which processes of one host learn that a folder has something new.

A process that adds something rings them all. A ring that comes before the wait is not lost.
Processes of other hosts hear nothing, so a process that waits looks again after a while anyway.
"""

import os
import secrets
import select
import socket
from contextlib import suppress
from pathlib import Path

_SUFFIX = ".bell"


class Doorbell:
    """A bell of this process in ``folder``; raises OSError where there can be no named pipes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(4)}.{socket.gethostname()}{_SUFFIX}"
        self._path = folder / name
        os.mkfifo(self._path, 0o600)
        # Also open for writing: without a writer, a pipe is always readable.
        self._pipe = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def wait(self, seconds: float) -> None:
        """Wait until it is rung, for so many seconds at most."""
        if select.select([self._pipe], [], [], seconds)[0]:
            with suppress(BlockingIOError):
                os.read(self._pipe, 1 << 16)

    def close(self) -> None:
        """Remove it."""
        self._path.unlink(missing_ok=True)
        os.close(self._pipe)


def ring(folder: Path) -> None:
    """Ring every bell of this host in ``folder``, and remove those of killed processes."""
    for path in folder.glob(f"*.{socket.gethostname()}{_SUFFIX}"):
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # nobody has it open
            path.unlink(missing_ok=True)
            continue
        with suppress(BlockingIOError):  # it is ringing
            os.write(pipe, b"!")
        os.close(pipe)
