"""CPU time and memory of a server with all its processes, including exited ones."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.serving.groups import Account

SAMPLE_SECONDS = 0.5


@dataclass(frozen=True)
class CpuTime:
    """Seconds of CPU time; ``main`` is the server's first process alone."""

    user: float
    system: float
    main: float

    def __sub__(self, earlier: "CpuTime") -> "CpuTime":
        return CpuTime(
            self.user - earlier.user, self.system - earlier.system, self.main - earlier.main
        )

    @property
    def total(self) -> float:
        """User and system time of all processes."""
        return self.user + self.system


class Processes:
    """The times read from each process, where there are no control groups. An exited process counts
    with the process that reaped it; one that nobody reaped is missed."""

    method = "sum over /proc/PID/stat with the ended children"

    def __init__(self) -> None:
        self._roots: list[psutil.Process] = []

    def add(self, pid: int) -> None:
        """Track a process and its descendants."""
        self._roots.append(psutil.Process(pid))

    def read(self) -> tuple[float, float]:
        """Return user and system seconds so far."""
        user = system = 0.0
        for process in (one for root in self._roots for one in tree(root)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                user += times.user + times.children_user
                system += times.system + times.children_system
        return user, system


class Usage:
    """CPU time of a server so far, and its peak memory between two reads."""

    def __init__(self, pid: int, account: Account) -> None:
        self._process = psutil.Process(pid)
        self._account = account
        self._peak = 0
        self.method = account.method

    def cpu(self) -> CpuTime:
        """Return the CPU time so far."""
        times = self._process.cpu_times()
        return CpuTime(*self._account.read(), main=times.user + times.system)

    def take_peak(self) -> int:
        """Return the peak bytes since the last call, as proportional set size of all processes."""
        peak, self._peak = max(self._peak, self._memory()), 0
        return peak

    def sample(self) -> None:
        """Sample the memory once."""
        self._peak = max(self._peak, self._memory())

    def _memory(self) -> int:
        return sum(proportional_set_size(process.pid) for process in tree(self._process))


@contextlib.contextmanager
def sampled(usage: Usage) -> Iterator[None]:
    """Sample the memory of a server during a block."""
    stop = threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            usage.sample()

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield
    finally:
        stop.set()
        sampler.join()


def tree(process: psutil.Process) -> list[psutil.Process]:
    """Return the process and its descendants; none if it has exited."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def proportional_set_size(pid: int) -> int:
    """Return a process's bytes, with shared pages divided among their users; 0 if it has exited."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
