"""Memory accounting of a control group, in cgroup v1 and v2.

Real memory is counted: anonymous pages, tmpfs files and kernel buffers, each once however many
processes of the group map them.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_TCP_BYTES = 64 << 20


class GroupMemory(Protocol):
    """Memory limits and counters of one group."""

    def set_limit(self, limit: int | None) -> None:
        """Limit memory plus swap; None lifts the limit.

        Raises OSError if more is in use than can be reclaimed.
        """

    def usage(self) -> int:
        """Bytes in use."""
        ...

    def held(self) -> int:
        """Bytes in use without page cache, which the kernel can reclaim."""
        ...

    def reset_peak(self) -> None:
        """Restart the measurement of peak memory."""

    def peak(self) -> int | None:
        """Peak memory since `reset_peak`; None if the kernel cannot tell."""
        ...

    def oom_kills(self) -> int:
        """Number of OOM kills since the group was created."""
        ...

    def close(self) -> None:
        """Close the open files."""


class FirstVersion:
    """The cgroup v1 interface."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._with_swap = folder / "memory.memsw.limit_in_bytes"
        self._usage = _OpenFile(folder / "memory.usage_in_bytes", os.O_RDONLY)
        self._peak = _OpenFile(folder / "memory.max_usage_in_bytes", os.O_RDWR)
        self._kills = _OpenFile(folder / "memory.oom_control", os.O_RDONLY)
        with suppress(OSError):  # otherwise buffers of TCP sockets are neither counted nor limited
            (folder / "memory.kmem.tcp.limit_in_bytes").write_text(str(_TCP_BYTES))

    def set_limit(self, limit: int | None) -> None:
        value = -1 if limit is None else limit
        files = [self._folder / "memory.limit_in_bytes", self._with_swap]
        try:
            self._write_all(files, value)
        except OSError as refused:
            # The limit on memory must never exceed the one on memory plus swap, so the order of
            # writes depends on the current values.
            if refused.errno != errno.EINVAL:
                raise
            self._write_all(files[::-1], value)

    def usage(self) -> int:
        return int(self._usage.read())

    def held(self) -> int:
        statistics = (self._folder / "memory.stat").read_bytes()
        return _counter(statistics, b"rss") + _counter(statistics, b"shmem")

    def reset_peak(self) -> None:
        self._peak.write(b"0")

    def peak(self) -> int:
        return int(self._peak.read())

    def oom_kills(self) -> int:
        return _counter(self._kills.read(), b"oom_kill")

    def close(self) -> None:
        for file in (self._usage, self._peak, self._kills):
            file.close()

    def _write_all(self, files: list[Path], value: int) -> None:
        for file in files:
            if file != self._with_swap or file.exists():  # absent without swap accounting
                file.write_text(str(value))


class SecondVersion:
    """The cgroup v2 interface."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._usage = _OpenFile(folder / "memory.current", os.O_RDONLY)
        self._kills = _OpenFile(folder / "memory.events", os.O_RDONLY)
        # From Linux 6.12 on, a peak can be reset for the descriptor that wrote to it.
        self._peak: _OpenFile | None = None
        with suppress(OSError):
            self._peak = _OpenFile(folder / "memory.peak", os.O_RDWR)
        with suppress(FileNotFoundError):
            (folder / "memory.swap.max").write_text("0")

    def set_limit(self, limit: int | None) -> None:
        (self._folder / "memory.max").write_text("max" if limit is None else str(limit))

    def usage(self) -> int:
        return int(self._usage.read())

    def held(self) -> int:
        statistics = (self._folder / "memory.stat").read_bytes()
        return _counter(statistics, b"anon") + _counter(statistics, b"shmem")

    def reset_peak(self) -> None:
        if self._peak is not None:
            try:
                self._peak.write(b"reset\n")
            except OSError:
                self._peak.close()
                self._peak = None

    def peak(self) -> int | None:
        return None if self._peak is None else int(self._peak.read())

    def oom_kills(self) -> int:
        return _counter(self._kills.read(), b"oom_kill")

    def close(self) -> None:
        for file in (self._usage, self._kills, self._peak):
            if file is not None:
                file.close()


class _OpenFile:
    """A frequently read kernel file: opening it costs more than reading it."""

    def __init__(self, path: Path, mode: int) -> None:
        self._descriptor = os.open(path, mode | os.O_CLOEXEC)

    def read(self) -> bytes:
        return os.pread(self._descriptor, 4096, 0)

    def write(self, text: bytes) -> None:
        os.pwrite(self._descriptor, text, 0)

    def close(self) -> None:
        os.close(self._descriptor)


def _counter(lines: bytes, name: bytes) -> int:
    for line in lines.splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    return 0
