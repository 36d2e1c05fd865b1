"""Doorbells: named pipes by which processes of one host learn that there is something new.

A process that adds something rings all bells of a folder. A ring that comes before the wait is
not lost. Processes of other hosts hear nothing, so who waits looks again after a while anyway.
"""

import errno
import os
import secrets
import select
from contextlib import suppress
from functools import cache
from pathlib import Path

_SUFFIX = ".bell"


class Doorbell:
    """A bell of this process in ``folder``; raises OSError where there can be no named pipes."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(4)}.{_host()}{_SUFFIX}"
        self._path = folder / name
        os.mkfifo(self._path, 0o600)
        # Also open for writing: without a writer, a pipe is always readable.
        self._pipe = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def fileno(self) -> int:
        """Return its pipe, which is readable after a ring."""
        return self._pipe

    def heard(self) -> bool:
        """Whether it was rung since the last call."""
        try:
            return bool(os.read(self._pipe, 1 << 16))
        except BlockingIOError:
            return False

    def wait(self, seconds: float) -> None:
        """Wait until it is rung, for so many seconds at most."""
        poll = select.poll()  # its descriptor may be above 1023
        poll.register(self._pipe, select.POLLIN)
        if poll.poll(1000 * seconds):
            self.heard()

    def close(self) -> None:
        """Remove it."""
        self._path.unlink(missing_ok=True)
        os.close(self._pipe)


def ring(folder: Path) -> None:
    """Ring every bell of this host in ``folder``, and remove those of killed processes."""
    for path in folder.glob(f"*.{_host()}{_SUFFIX}"):
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody has it open
                path.unlink(missing_ok=True)
            continue
        with suppress(BlockingIOError):  # it is ringing
            os.write(pipe, b"!")
        os.close(pipe)


@cache
def _host() -> str:
    """The boot of this host: its containers share it, whatever their names."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
