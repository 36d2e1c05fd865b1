"""One cell of the table: query count per request and concurrency on one server."""

import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.retrieval.load import PATIENCE
from benchmarks.retrieval.observed import ObservedSearches
from benchmarks.serving.accounting import CpuTime
from benchmarks.serving.driving import drive
from benchmarks.serving.server import Server
from services.contracts.retrieval.indexes import IndexMode

LOAD_START_SECONDS = 60.0


@dataclass(frozen=True)
class Ask:
    """The load generator's workload; ``queries`` is a file with one query per line."""

    mode: IndexMode
    queries: Path
    skip: int
    together: int
    concurrency: int
    seconds: float


@dataclass(frozen=True)
class Cell:
    """A measurement by `Drive`."""

    ask: Ask
    observed: ObservedSearches
    cpu: CpuTime
    peak_bytes: int
    elsewhere: float

    def per_request(self, seconds: float) -> float:
        """Return milliseconds per answered request."""
        return 1000 * seconds / max(1, self.observed.answered)


def measure(server: Server, ask: Ask) -> Cell:
    """Drive a server with the load generator, and measure both."""
    command = [
        *(sys.executable, "-m", "benchmarks.retrieval.load", str(server.port), str(ask.queries)),
        *("--skip", str(ask.skip), "--concurrency", str(ask.concurrency)),
        *("--together", str(ask.together), "--seconds", str(ask.seconds)),
    ]
    driven = drive(server, command, ask.seconds + 2 * PATIENCE + LOAD_START_SECONDS)
    observed = ObservedSearches.model_validate_json(driven.output)
    return Cell(
        ask=ask,
        observed=observed,
        cpu=driven.cpu,
        peak_bytes=driven.peak_bytes,
        elsewhere=driven.elsewhere(observed.client_cpu),
    )
