"""Run a load generator against a server, and account for both."""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psutil

from benchmarks.serving.accounting import CpuTime, sampled
from benchmarks.serving.server import REPOSITORY, Server


@dataclass(frozen=True)
class Drive:
    """The output of a load generator, and the resources used meanwhile.

    CPU times cover the whole run, including warm-up: ``cpu`` is the server's, ``busy`` the whole
    machine's, in seconds; ``available`` is the machine's capacity. ``peak_bytes`` is the server's
    memory.
    """

    output: bytes
    cpu: CpuTime
    busy: float
    available: float
    peak_bytes: int

    def elsewhere(self, client_cpu: float) -> float:
        """Return the share of the machine used by neither the server nor the load generator.

        Other work distorts the measurement.
        """
        return max(0.0, self.busy - self.cpu.total - client_cpu) / self.available


def drive(server: Server, load: Sequence[str], seconds: float) -> Drive:
    """Run the command ``load`` to its end, within ``seconds``."""
    server.usage.take_peak()
    begun, busy, before = time.perf_counter(), _busy_seconds(), server.usage.cpu()
    with sampled(server.usage), _running(load) as process:
        output, _ = process.communicate(timeout=seconds)
    return Drive(
        output=output,
        cpu=server.usage.cpu() - before,
        busy=_busy_seconds() - busy,
        available=(time.perf_counter() - begun) * (psutil.cpu_count() or 1),
        peak_bytes=server.usage.take_peak(),
    )


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait)
