"""Measurements in the child process of either library; imports the standard library only."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

TOPK = 10
BATCH = 64

Search = Callable[[Sequence[list[str]]], list[list[int]]]
"""The passages' numbers for each of several queries, given as tokens."""


def run(
    library: str, build: Callable[[Path, Path], None], opened: Callable[[Path], Search]
) -> None:
    """Execute the command line: ``build FOLDER`` or ``search FOLDER``."""
    action, folder = sys.argv[1], Path(sys.argv[2])
    index = folder / library
    started = time.perf_counter()
    if action == "build":
        index.mkdir()
        build(folder / "passages.txt", index)
        size = sum(path.stat().st_size for path in index.rglob("*"))
        metrics = {"seconds": time.perf_counter() - started, "disk_mb": size / 1e6}
    else:
        search = opened(index)
        metrics = {"open_seconds": time.perf_counter() - started}
        queries = list(token_lists(folder / "queries.txt"))
        found = search(queries)
        (folder / f"{library}.json").write_text(json.dumps(found))
        metrics |= _speeds(search, queries)
    print(json.dumps(metrics | _memory()))


def token_lists(path: Path) -> Iterator[list[str]]:
    """Return the tokens of each line."""
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            yield line.split()


def _speeds(search: Search, queries: Sequence[list[str]]) -> dict[str, float]:
    seconds = []
    for query in queries:
        started = time.perf_counter()
        search([query])
        seconds.append(time.perf_counter() - started)
    started = time.perf_counter()
    for first in range(0, len(queries), BATCH):
        search(queries[first : first + BATCH])
    together = time.perf_counter() - started
    seconds.sort()
    return {
        "one_by_one": len(queries) / sum(seconds),
        "p50_ms": 1000 * seconds[len(seconds) // 2],
        "p99_ms": 1000 * seconds[len(seconds) * 99 // 100],
        "batched": len(queries) / together,
    }


def _memory() -> dict[str, float]:
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = {name: int(rest.split()[0]) for name, _, rest in (
        line.partition(":") for line in lines if line.endswith(" kB")
    )}  # fmt: skip
    names = {"peak_mb": "VmHWM", "resident_mb": "VmRSS", "private_mb": "RssAnon"}
    return {name: kilobytes[field] / 1000 for name, field in names.items()}
