"""The memory of a control group, in both versions of the kernel's interface.

What is counted is real memory: anonymous pages, files of a tmpfs and buffers of the kernel, each
once, however many processes of the group map them.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol


class GroupMemory(Protocol):
    """What is limited and counted of one group."""

    def set_limit(self, limit: int | None) -> None:
        """Hold the group to so many bytes, swap included; None lifts the limit.

        Raises OSError when the group uses more that cannot be given back.
        """

    def usage(self) -> int:
        """Return the bytes in use."""
        ...

    def held(self) -> int:
        """Return the bytes in use that only their owner can give back: no cached files."""
        ...

    def reset_peak(self) -> None:
        """Begin to count the peak anew."""

    def peak(self) -> int | None:
        """Return the most bytes in use since `reset_peak`; None where the kernel cannot tell."""
        ...

    def oom_kills(self) -> int:
        """Return how many processes were killed at the limit since the group was made."""
        ...

    def close(self) -> None:
        """Close what is held open."""


class FirstVersion:
    """Memory as cgroup v1 shows it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._with_swap = folder / "memory.memsw.limit_in_bytes"
        self._usage = _OpenFile(folder / "memory.usage_in_bytes", os.O_RDONLY)
        self._peak = _OpenFile(folder / "memory.max_usage_in_bytes", os.O_RDWR)
        self._kills = _OpenFile(folder / "memory.oom_control", os.O_RDONLY)

    def set_limit(self, limit: int | None) -> None:
        value = -1 if limit is None else limit
        files = [self._folder / "memory.limit_in_bytes", self._with_swap]
        try:
            self._write_all(files, value)
        except OSError as refused:
            # Memory alone may never be limited higher than with swap: which comes first depends
            # on what was there.
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
            if file != self._with_swap or file.exists():  # absent where swap is not accounted
                file.write_text(str(value))


class SecondVersion:
    """Memory as cgroup v2 shows it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._usage = _OpenFile(folder / "memory.current", os.O_RDONLY)
        self._kills = _OpenFile(folder / "memory.events", os.O_RDONLY)
        # A peak can be reset from Linux 6.12 on, for the descriptor that asked alone.
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
    """A file of the kernel that is asked for often: opening it anew costs more than reading."""

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
