"""CPU time and memory of a server with all its processes, ended ones included."""

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
    """Seconds of CPU time; ``main`` is of the server's first process alone."""

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
    """The times of the processes themselves, where there are no control groups.

    What has ended counts with the process that waited for it; what nobody waited for is missed.
    """

    method = "sum over /proc/PID/stat with the ended children"

    def __init__(self) -> None:
        self._roots: list[psutil.Process] = []

    def add(self, pid: int) -> None:
        """Count a process and all below it."""
        self._roots.append(psutil.Process(pid))

    def read(self) -> tuple[float, float]:
        """User and system seconds so far."""
        user = system = 0.0
        for process in (one for root in self._roots for one in tree(root)):
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                user += times.user + times.children_user
                system += times.system + times.children_system
        return user, system


class Usage:
    """CPU time of a server so far, and the peak of its memory between two questions."""

    def __init__(self, pid: int, account: Account) -> None:
        self._process = psutil.Process(pid)
        self._account = account
        self._peak = 0
        self.method = account.method

    def cpu(self) -> CpuTime:
        """CPU time so far."""
        times = self._process.cpu_times()
        return CpuTime(*self._account.read(), main=times.user + times.system)

    def take_peak(self) -> int:
        """The most bytes seen since the last call, as proportional set size of all processes."""
        peak, self._peak = max(self._peak, self._memory()), 0
        return peak

    def sample(self) -> None:
        """Look at the memory once."""
        self._peak = max(self._peak, self._memory())

    def _memory(self) -> int:
        return sum(proportional_set_size(process.pid) for process in tree(self._process))


@contextlib.contextmanager
def sampled(usage: Usage) -> Iterator[None]:
    """Watch the memory of a server during a block."""
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
    """The process and all below it; none when it has ended."""
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def proportional_set_size(pid: int) -> int:
    """Bytes of a process, what it shares with others divided among them; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
