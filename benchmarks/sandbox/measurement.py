"""One cell of the table: a program at a concurrency on one server."""

import sys
from dataclasses import dataclass

from benchmarks.sandbox.observed import ObservedRuns
from benchmarks.sandbox.programs import PATIENCE, Program
from benchmarks.serving.accounting import CpuTime
from benchmarks.serving.driving import drive
from benchmarks.serving.server import Server

LOAD_START_SECONDS = 60.0


@dataclass(frozen=True)
class Cell:
    """A measurement by `Drive`."""

    program: str
    concurrency: int
    observed: ObservedRuns
    cpu: CpuTime
    peak_bytes: int
    elsewhere: float

    @property
    def cpu_per_run(self) -> float:
        """Return milliseconds of the server's CPU time per program."""
        return self.per_run(self.cpu.total)

    def per_run(self, seconds: float) -> float:
        """Return milliseconds per program that returned a result."""
        return 1000 * seconds / max(1, self.observed.answered)


@dataclass(frozen=True)
class Plan:
    """How each cell is measured."""

    seconds: float
    reconnect: bool


def measure(server: Server, program: Program, concurrency: int, plan: Plan) -> Cell:
    """Drive a server with the load generator, and measure both."""
    command = [
        *(sys.executable, "-m", "benchmarks.sandbox.load"),
        *(str(server.port), program.name, str(concurrency), str(plan.seconds)),
        *(["--reconnect"] if plan.reconnect else []),
    ]
    driven = drive(server, command, plan.seconds + 2 * PATIENCE + LOAD_START_SECONDS)
    observed = ObservedRuns.model_validate_json(driven.output)
    return Cell(
        program=program.name,
        concurrency=concurrency,
        observed=observed,
        cpu=driven.cpu,
        peak_bytes=driven.peak_bytes,
        elsewhere=driven.elsewhere(observed.client_cpu),
    )
