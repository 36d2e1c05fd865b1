"""Queries per second of the libraries called directly, in batches of 64.

    python -m benchmarks.retrieval.in_process INDEX MODE ENCODING QUERIES SECONDS

Prints one JSON object. Batches are searched by one thread and then by one per core, since libraries
parallelize differently; the better of the two is the reference.
"""

import itertools
import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from json import loads
from pathlib import Path

from pydantic import BaseModel

from benchmarks.retrieval.libraries import Encoding, Libraries
from services.contracts.retrieval.indexes import IndexMode

BATCH = 64
TOPK = 3
WARM_UP_SECONDS = 1.0


class Direct(BaseModel):
    """Queries per second, by number of threads; CPU time in milliseconds per query."""

    rates: dict[int, float]
    cpu_per_query: float

    @property
    def best(self) -> float:
        """Return the reference."""
        return max(self.rates.values())


def measure(
    libraries: Libraries, batches: Iterator[list[str]], threads: int, seconds: float
) -> float:
    """Return queries per second."""
    taking = threading.Lock()
    end = time.perf_counter() + seconds

    def search() -> int:
        answered = 0
        while time.perf_counter() < end:
            with taking:
                batch = next(batches)
            answered += len(libraries.search(batch, TOPK))
        return answered

    begun = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        done = sum(pool.map(lambda _: search(), range(threads)))
    return done / (time.perf_counter() - begun)


def main() -> None:
    """Run the benchmark."""
    folder, mode, encoding, file, seconds = sys.argv[1:]
    queries = [loads(line) for line in Path(file).read_bytes().splitlines()]
    libraries = Libraries(Path(folder), IndexMode(mode), Encoding(encoding))
    batches = itertools.cycle(
        [queries[start : start + BATCH] for start in range(0, len(queries), BATCH)]
    )
    rates = {}
    cpu = 0.0
    for threads in sorted({1, os.cpu_count() or 1}):
        measure(libraries, batches, threads, WARM_UP_SECONDS)
        before = time.process_time()
        rates[threads] = measure(libraries, batches, threads, float(seconds))
        cpu = 1000 * (time.process_time() - before) / (rates[threads] * float(seconds))
    print(Direct(rates=rates, cpu_per_query=cpu).model_dump_json())


if __name__ == "__main__":
    main()
