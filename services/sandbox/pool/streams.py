"""The service's ends of a program's standard streams."""

import asyncio
import functools
import os

from services.sandbox.execution import OutputListener, Stream

_PIECE = 1 << 18
_PIPE_HOLDS = 1 << 16
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
    """Feeds bytes to a program that may read them slowly, in part, or never.

    ``read_end`` is the program's; `started` closes our copy.
    """

    def __init__(self, data: bytes) -> None:
        self._left = memoryview(data)
        self._write_end = -1
        if not data:
            self.read_end = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            return
        self.read_end, self._write_end = os.pipe()
        os.fchmod(self.read_end, _READABLE)
        os.set_blocking(self._write_end, False)
        if len(data) <= _PIPE_HOLDS:  # all at once, before there is a reader
            self._write()

    def started(self) -> None:
        """Keep feeding: the program has its end."""
        os.close(self.read_end)
        if self._write_end >= 0:
            asyncio.get_running_loop().add_writer(self._write_end, self._write)

    def finish(self) -> None:
        """Stop: no process of the program is alive."""
        if self._write_end >= 0:
            asyncio.get_running_loop().remove_writer(self._write_end)
            self._close()

    def discard(self) -> None:
        """Close without having been started."""
        os.close(self.read_end)
        self._close()

    def _write(self) -> None:
        try:
            self._left = self._left[os.write(self._write_end, self._left[:_PIECE]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._left = self._left[:0]
        if not self._left:
            asyncio.get_running_loop().remove_writer(self._write_end)
            self._close()

    def _close(self) -> None:
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1
