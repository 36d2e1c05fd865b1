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
        return int((self._folder / "memory.usage_in_bytes").read_text())

    def held(self) -> int:
        statistics = self._folder / "memory.stat"
        return _counter(statistics, "rss") + _counter(statistics, "shmem")

    def reset_peak(self) -> None:
        (self._folder / "memory.max_usage_in_bytes").write_text("0")

    def peak(self) -> int:
        return int((self._folder / "memory.max_usage_in_bytes").read_text())

    def oom_kills(self) -> int:
        return _counter(self._folder / "memory.oom_control", "oom_kill")

    def close(self) -> None:
        """Nothing is held open."""

    def _write_all(self, files: list[Path], value: int) -> None:
        for file in files:
            if file != self._with_swap or file.exists():  # absent where swap is not accounted
                file.write_text(str(value))


class SecondVersion:
    """Memory as cgroup v2 shows it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # A peak can be reset from Linux 6.12 on, for the descriptor that asked alone.
        self._peak: int | None = None
        with suppress(OSError):
            self._peak = os.open(folder / "memory.peak", os.O_RDWR | os.O_CLOEXEC)
        with suppress(FileNotFoundError):
            (folder / "memory.swap.max").write_text("0")

    def set_limit(self, limit: int | None) -> None:
        (self._folder / "memory.max").write_text("max" if limit is None else str(limit))

    def usage(self) -> int:
        return int((self._folder / "memory.current").read_text())

    def held(self) -> int:
        statistics = self._folder / "memory.stat"
        return _counter(statistics, "anon") + _counter(statistics, "shmem")

    def reset_peak(self) -> None:
        if self._peak is not None:
            try:
                os.write(self._peak, b"reset\n")
            except OSError:
                self.close()

    def peak(self) -> int | None:
        return None if self._peak is None else int(os.pread(self._peak, 32, 0))

    def oom_kills(self) -> int:
        return _counter(self._folder / "memory.events", "oom_kill")

    def close(self) -> None:
        if self._peak is not None:
            os.close(self._peak)
            self._peak = None


def _counter(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return int(value)
    return 0
