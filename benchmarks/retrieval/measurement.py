"""One cell of the table: requests of so many queries, so many of them at once, on one server."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.retrieval.load import PATIENCE
from benchmarks.retrieval.observed import Observed
from benchmarks.retrieval.servers import REPOSITORY, Server
from benchmarks.sandbox.accounting import CpuTime, sampled
from services.common.contracts.indexes import IndexMode

LOAD_START_SECONDS = 60.0


@dataclass(frozen=True)
class Ask:
    """What the load generator does: ``queries`` is a file of them, a line each."""

    mode: IndexMode
    queries: Path
    skip: int
    together: int
    concurrency: int
    seconds: float


@dataclass(frozen=True)
class Cell:
    """A measurement; CPU times are of the whole of it, with the requests of the warm-up.

    ``peak_bytes`` is the server's memory; ``elsewhere`` the share of the machine's processors that
    neither the server nor the load generator used: other work falsifies the figures.
    """

    ask: Ask
    observed: Observed
    cpu: CpuTime
    peak_bytes: int
    elsewhere: float

    def per_request(self, seconds: float) -> float:
        """Milliseconds for each request that was answered."""
        return 1000 * seconds / max(1, self.observed.answered)


def measure(server: Server, ask: Ask) -> Cell:
    """Let the load generator drive a server, and account for both."""
    command = [
        *(sys.executable, "-m", "benchmarks.retrieval.load", str(server.port), str(ask.queries)),
        *("--skip", str(ask.skip), "--concurrency", str(ask.concurrency)),
        *("--together", str(ask.together), "--seconds", str(ask.seconds)),
    ]
    limit = ask.seconds + 2 * PATIENCE + LOAD_START_SECONDS
    server.usage.take_peak()
    begun, busy, before = time.perf_counter(), _busy_seconds(), server.usage.cpu()
    with sampled(server.usage), _load(command) as load:
        output, _ = load.communicate(timeout=limit)
    cpu, busy = server.usage.cpu() - before, _busy_seconds() - busy
    elapsed = time.perf_counter() - begun
    observed = Observed.model_validate_json(output)
    used = cpu.total + observed.client_cpu
    return Cell(
        ask=ask,
        observed=observed,
        cpu=cpu,
        peak_bytes=server.usage.take_peak(),
        elsewhere=max(0.0, busy - used) / (elapsed * (psutil.cpu_count() or 1)),
    )


@contextlib.contextmanager
def _load(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait)
