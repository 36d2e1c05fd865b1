"""One cell of the table: a program at a concurrency on one server."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.sandbox.accounting import CpuTime, sampled
from benchmarks.sandbox.observed import Observed
from benchmarks.sandbox.programs import PATIENCE, Program
from benchmarks.sandbox.servers import Server

REPOSITORY = Path(__file__).parents[2]
LOAD_START_SECONDS = 60.0


@dataclass(frozen=True)
class Cell:
    """A measurement; CPU times are of the whole of it, with the calls of the warm-up.

    ``peak_bytes`` is the server's memory; ``elsewhere`` the share of the machine's processors that
    neither the server nor the load generator used: other work falsifies the figures.
    """

    program: str
    concurrency: int
    observed: Observed
    cpu: CpuTime
    peak_bytes: int
    elsewhere: float

    @property
    def cpu_per_run(self) -> float:
        """Milliseconds of the server's CPU time for each program."""
        return self.per_run(self.cpu.total)

    def per_run(self, seconds: float) -> float:
        """Milliseconds for each program whose result came."""
        return 1000 * seconds / max(1, self.observed.answered)


@dataclass(frozen=True)
class Plan:
    """How each cell is measured."""

    seconds: float
    reconnect: bool


def measure(server: Server, program: Program, concurrency: int, plan: Plan) -> Cell:
    """Let the load generator drive a server, and account for both."""
    command = [
        *(sys.executable, "-m", "benchmarks.sandbox.load"),
        *(str(server.port), program.name, str(concurrency), str(plan.seconds)),
        *(["--reconnect"] if plan.reconnect else []),
    ]
    limit = plan.seconds + 2 * PATIENCE + LOAD_START_SECONDS
    server.usage.take_peak()
    begun, busy, before = time.perf_counter(), _busy_seconds(), server.usage.cpu()
    with sampled(server.usage), _load(command) as load:
        output, _ = load.communicate(timeout=limit)
    cpu, busy = server.usage.cpu() - before, _busy_seconds() - busy
    elapsed = time.perf_counter() - begun
    observed = Observed.model_validate_json(output)
    return Cell(
        program=program.name,
        concurrency=concurrency,
        observed=observed,
        cpu=cpu,
        peak_bytes=server.usage.take_peak(),
        elsewhere=max(0.0, busy - cpu.total - observed.client_cpu)
        / (elapsed * (psutil.cpu_count() or 1)),
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
