"""The service without cache, compared with an unbatched server and with its libraries."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.retrieval import report
from benchmarks.retrieval.in_process import Direct
from benchmarks.retrieval.libraries import Encoding
from benchmarks.retrieval.measurement import Ask, Cell, measure
from benchmarks.retrieval.report import Verdict
from benchmarks.retrieval.servers import our_service, reference_server, with_packages
from benchmarks.serving.server import REPOSITORY, RUNTIMES, Server
from services.contracts.retrieval.indexes import IndexMode
from services.core.process.runtimes import find_runtime

MODE = "TEMPER_RETRIEVAL_MODE"
CACHE = "TEMPER_RETRIEVAL_CACHE_MB"
CACHE_MB = "64"
CONCURRENT = 64
"""Where goals are set."""

_NAMES = {Encoding.OWN: "one by one", Encoding.PUBLISHED: "published"}


@dataclass(frozen=True)
class Plan:
    """The index to query and the query files, one query per line."""

    indexes: Path
    index: str
    passages: int
    different: Path
    repeating: Path
    concurrency: Sequence[int]
    together: Sequence[int]
    seconds: float

    def ask(self, mode: IndexMode, together: int, concurrency: int, skip: int = 0) -> Ask:
        """Return one measurement, with distinct queries."""
        return Ask(mode, self.different, skip, together, concurrency, self.seconds)


def compare(plan: Plan, mode: IndexMode) -> Iterator[Verdict]:
    """Measure every cell of a mode on each server, and the libraries; print each immediately."""
    encodings = [Encoding.OWN] if mode is IndexMode.BM25 else list(Encoding)
    direct = {encoding: in_process(plan, mode, encoding) for encoding in encodings}
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(serving(plan, mode))
        references = {
            encoding: stack.enter_context(_one_by_one(plan, mode, encoding))
            for encoding in encodings
        }
        skip = 0
        for together in plan.together:
            for concurrency in plan.concurrency:
                ask = plan.ask(mode, together, concurrency, skip)
                cell = _measured("ours", ours, ask)
                skip += together * (cell.observed.answered + concurrency)
                others = {
                    encoding: _measured(_NAMES[encoding], reference, ask)
                    for encoding, reference in references.items()
                }
                for other in others.values():
                    print(report.ratios(cell, other), flush=True)
                yield from _verdicts(cell, others, direct[Encoding.OWN], plan.passages)


def with_cache(plan: Plan, mode: IndexMode) -> None:
    """Print the speedup of the cache when queries repeat as users' do."""
    ask = replace(plan.ask(mode, 1, CONCURRENT), queries=plan.repeating)
    rates = []
    for name, settings in (("no cache", {CACHE: "0"}), ("cache", {CACHE: CACHE_MB})):
        with serving(plan, mode, **settings) as server:
            cell = measure(server, ask)
        print(report.row(name, cell), flush=True)
        rates.append(cell.observed.rate)
    print(f"{mode}: {rates[1] / rates[0]:.1f} times as many repeating queries/s with a cache")


def in_process(plan: Plan, mode: IndexMode, encoding: Encoding) -> Direct:
    """Measure the libraries called directly, with batches of 64."""
    command = with_packages(
        python_for(mode),
        "benchmarks.retrieval.in_process",
        *(str(plan.indexes / plan.index), mode, encoding, str(plan.different)),
        str(plan.seconds),
    )
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise SystemExit(f"{mode} in process failed:\n{ended.stderr[-3000:]}")
    direct = Direct.model_validate_json(ended.stdout)
    rates = ", ".join(f"{rate:.0f} by {threads}" for threads, rate in direct.rates.items())
    print(
        f"{mode}: in process ({encoding} encoding), batches of 64, queries/s by threads: {rates};"
        f" {direct.cpu_per_query:.2f} ms of CPU time a query",
        flush=True,
    )
    return direct


def serving(plan: Plan, mode: IndexMode, **settings: str) -> AbstractContextManager[Server]:
    """Run the service on the plan's index in one mode; without a cache unless set otherwise."""
    return our_service(plan.indexes, plan.index, {MODE: mode, CACHE: "0", **settings})


def python_for(mode: IndexMode) -> Path:
    """Return the interpreter with a mode's packages."""
    if mode is IndexMode.BM25:
        return Path(sys.executable)
    return find_runtime(RUNTIMES, "encoder").python


def _one_by_one(plan: Plan, mode: IndexMode, encoding: Encoding) -> AbstractContextManager[Server]:
    return reference_server(plan.indexes / plan.index, mode, encoding, python_for(mode))


def _measured(name: str, server: Server, ask: Ask) -> Cell:
    cell = measure(server, ask)
    print(report.row(name, cell), flush=True)
    if cell.observed.example:
        print(f"{'':<15}{name}: for example {cell.observed.example}")
    return cell


def _verdicts(
    ours: Cell, references: Mapping[Encoding, Cell], direct: Direct, passages: int
) -> Iterator[Verdict]:
    mode = ours.ask.mode
    if ours.ask.concurrency == CONCURRENT:
        yield report.against_libraries(ours, direct.best, passages)
        if mode is IndexMode.DENSE:
            for encoding, reference in references.items():
                yield report.against_one_by_one(ours, reference, encoding)
    if ours.ask.concurrency == ours.ask.together == 1 and mode is IndexMode.BM25:
        yield report.alone(ours)
