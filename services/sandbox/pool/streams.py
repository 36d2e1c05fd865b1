"""The service's ends of a program's standard streams."""

import asyncio
import fcntl
import functools
import os

from services.sandbox.execution import OutputListener, Stream

_PIECE = 1 << 18
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
"""What a program reads cannot be changed, so it holds no data of its own in our memory."""
_WRITABLE, _READABLE = 0o622, 0o644
"""The program runs as another user, and may open /dev/stdout or /dev/stdin by name."""
_MAX_LEFT = 256
"""Most pieces that a pipe holds, whatever size a program gives it."""


class ProgramOutput:
    """Drains a pipe and keeps the first ``limit`` bytes.

    ``write_end`` is the program's; `started` closes our copy.
    """

    def __init__(self, stream: Stream, limit: int, listener: OutputListener | None) -> None:
        self._read_end, self.write_end = os.pipe()
        os.fchmod(self.write_end, _WRITABLE)
        os.set_blocking(self._read_end, False)
        self._stream = stream
        self._limit = limit
        self._listener = listener
        self._kept = bytearray()
        self._open = True
        self.cut = False

    @property
    def kept(self) -> bytes:
        """The output kept so far."""
        return bytes(self._kept)

    def started(self) -> None:
        """Start draining: the program has its end."""
        os.close(self.write_end)
        asyncio.get_running_loop().add_reader(self._read_end, self._read)

    def finish(self) -> None:
        """Read the rest and close; a lost program may even still be writing."""
        for _ in range(_MAX_LEFT):
            if not self._open or not self._read():
                break
        self._close()

    def discard(self) -> None:
        """Close without having been started."""
        os.close(self.write_end)
        os.close(self._read_end)
        self._open = False

    def _read(self) -> bool:
        """Read a piece; return whether there may be more."""
        room = self._limit - len(self._kept)
        try:
            if room <= 0:
                return self._drop()
            piece = os.read(self._read_end, min(room, _PIECE))
        except BlockingIOError:
            return False
        if not piece:
            self._close()
            return False
        self._kept += piece
        if self._listener is not None:
            self._listener(self._stream, piece)
        return True

    def _drop(self) -> bool:
        # Inside the kernel, so that a flood of output costs the service no time.
        dropped = os.splice(self._read_end, _nowhere(), _PIECE, flags=os.SPLICE_F_NONBLOCK)
        self.cut = self.cut or dropped > 0
        if not dropped:
            self._close()
        return dropped > 0

    def _close(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._read_end)
            os.close(self._read_end)


@functools.cache
def _nowhere() -> int:
    return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


class Input:
    """The standard input of a program: a file, as of ``program < file``, whose size it can ask for
    and in which it can seek.

    ``read_end`` is the program's; `started` closes our copy.
    """

    def __init__(self, data: bytes) -> None:
        if not data:
            self.read_end = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            return
        self.read_end = os.memfd_create("stdin", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            _write(self.read_end, data)
            fcntl.fcntl(self.read_end, fcntl.F_ADD_SEALS, _SEALS)
            os.fchmod(self.read_end, _READABLE)
        except BaseException:
            os.close(self.read_end)
            raise

    def started(self) -> None:
        """Close our copy: the program has its own."""
        os.close(self.read_end)

    def finish(self) -> None:
        """Do nothing: the program's copy ends with it."""

    def discard(self) -> None:
        """Close without having been started."""
        os.close(self.read_end)


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]
    os.lseek(file, 0, os.SEEK_SET)
