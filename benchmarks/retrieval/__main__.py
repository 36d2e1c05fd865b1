"""Speed and quality of the retrieval service, compared with its libraries and a plain server.

Builds an index of real passages, and drives the service and the plain server over it, alternating,
from a separate process, with distinct queries and without a cache. Then measures the benefit of the
cache, the quality of results, and a million passages. From the repository root:

    python -m benchmarks.retrieval
    python -m benchmarks.retrieval --modes bm25 --concurrency 1 64 --seconds 3 --parts speed cache
"""

import argparse
import contextlib
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import psutil

from benchmarks.retrieval import report
from benchmarks.retrieval.answers import print_quality
from benchmarks.retrieval.builds import build
from benchmarks.retrieval.comparison import Plan, compare, with_cache
from benchmarks.retrieval.queries import write_different, write_repeating
from benchmarks.retrieval.report import Verdict
from benchmarks.retrieval.scale import measure_scale
from benchmarks.serving.accounting import SAMPLE_SECONDS
from services.contracts.retrieval.indexes import IndexMode
from tests.support.corpora import debian
from tests.support.corpora.passage import Passage, write_rows

PARTS = ("speed", "cache", "quality", "scale")
INDEX = "real"
QUERIES = 400_000


def main() -> None:
    """Run the benchmark."""
    given = _arguments()
    # Ends in order: servers and builders of ours end, too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    _introduce()
    with contextlib.ExitStack() as stack:
        folder = given.folder or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="temper-retrieval-"))
        )
        folder.mkdir(parents=True, exist_ok=True)
        verdicts = list(_measure(folder, given))
    for verdict in verdicts:
        print(verdict)


def _measure(folder: Path, given: argparse.Namespace) -> Iterator[Verdict]:
    modes = [IndexMode(mode) for mode in given.modes]
    if {"speed", "cache", "quality"} & set(given.parts):
        passages = list(islice(debian.passages(), given.passages))
        plan = _prepared(folder, passages, modes, given)
        if "speed" in given.parts:
            print(report.HEAD, flush=True)
            for mode in modes:
                yield from compare(plan, mode)
        if "cache" in given.parts:
            for mode in modes:
                with_cache(plan, mode)
        if "quality" in given.parts:
            print_quality(plan, modes, passages)
    if "scale" in given.parts:
        yield from measure_scale(folder, modes, given.scale, given.seconds)


def _prepared(
    folder: Path, passages: list[Passage], modes: list[IndexMode], given: argparse.Namespace
) -> Plan:
    """Return an index of the passages, reused from an earlier run if present, and the queries."""
    corpus, indexes = folder / "corpus.jsonl", folder / "indexes"
    needed = IndexMode.BM25 if modes == [IndexMode.BM25] else IndexMode.HYBRID
    index = f"{INDEX}-{needed}-{len(passages)}"
    if not (indexes / index / "current").exists():
        write_rows(passages, corpus)
        print(build(indexes, index, corpus, needed), flush=True)
    different, repeating = folder / "different.txt", folder / "repeating.txt"
    write_different(passages, QUERIES, different)
    write_repeating(different, QUERIES, repeating)
    return Plan(
        indexes=indexes,
        index=index,
        passages=len(passages),
        different=different,
        repeating=repeating,
        concurrency=given.concurrency,
        together=given.together,
        seconds=given.seconds,
    )


def _introduce() -> None:
    memory = psutil.virtual_memory().total / 2**30
    print(
        f"{psutil.cpu_count()} processors, {memory:.0f} GiB, Linux {platform.release()},"
        f" Python {platform.python_version()}; memory: PSS of all processes every"
        f" {SAMPLE_SECONDS} s",
        flush=True,
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.retrieval", description=__doc__.partition("\n")[0]
    )
    modes = [mode.value for mode in IndexMode]
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--modes", nargs="+", choices=modes, default=modes)
    parser.add_argument(
        "--concurrency",
        nargs="+",
        type=int,
        default=[1, 16, 64, 256],
        metavar="NUMBER",
        help="requests in flight",
    )
    parser.add_argument(
        "--together",
        nargs="+",
        type=int,
        default=[1, 5],
        metavar="NUMBER",
        help="queries per request",
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="measured time per line")
    parser.add_argument(
        "--passages", type=int, default=30_000, help="real passages (package descriptions)"
    )
    parser.add_argument("--scale", type=int, default=1_000_000, help="synthetic passages")
    parser.add_argument("--folder", type=Path, help="keep the indexes here for later runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
