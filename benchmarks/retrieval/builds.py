"""Index builds for the measurements, as the command line runs them."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from benchmarks.serving.accounting import Processes, Usage, sampled
from benchmarks.serving.server import REPOSITORY, RUNTIMES
from services.contracts.retrieval.index_messages import MESSAGE_FILE, MODULE, BuildIndex
from services.contracts.retrieval.indexes import DenseKind, IndexMode, IndexSpecification
from services.core.process.reporter import RESULT
from services.retrieval.store.store import IndexStore


@dataclass(frozen=True)
class Build:
    """An index and the cost of its build; ``peak_bytes`` covers the builder and its encoder."""

    name: str
    documents: int
    bytes_on_disk: int
    seconds: float
    peak_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.documents} passages in {self.seconds:.1f} s,"
            f" {self.documents / self.seconds:.0f} documents/s, at most"
            f" {self.peak_bytes / 2**20:.0f} MB of memory; on disk"
            f" {self.bytes_on_disk / 2**20:.0f} MB"
        )


def build(
    indexes: Path, name: str, corpus: Path, mode: IndexMode, kind: DenseKind = DenseKind.AUTO
) -> Build:
    """Build an index from a corpus; exit the benchmark on failure."""
    folder = indexes.parent / f"build-{name}"
    folder.mkdir(exist_ok=True)
    order = BuildIndex(
        index=name,
        corpus=corpus,
        corpus_name=corpus.name,
        specification=IndexSpecification(mode=mode, dense=kind),
        build=uuid4().hex,
    )
    (folder / MESSAGE_FILE).write_text(order.model_dump_json())
    begun = time.perf_counter()
    with open(folder / "log", "wb") as log, _builder(folder, indexes, log.fileno()) as process:
        account = Processes()
        account.add(process.pid)
        usage = Usage(process.pid, account)
        with sampled(usage):
            code = process.wait()
        peak = usage.take_peak()
    seconds = time.perf_counter() - begun
    if code or '"succeeded"' not in (folder / RESULT).read_text():
        said = "".join((folder / file).read_text()[-3000:] for file in ("log", RESULT))
        raise SystemExit(f"building {name} failed:\n{said}")
    summary = IndexStore(indexes).summary(name)
    return Build(name, summary.documents, summary.bytes_on_disk, seconds, peak)


@contextlib.contextmanager
def _builder(folder: Path, indexes: Path, log: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = {
        **os.environ,
        "TEMPER_HOME": str(folder / "home"),
        "TEMPER_RUNTIMES": str(RUNTIMES),
        "TEMPER_RETRIEVAL_INDEXES": str(indexes),
    }
    with subprocess.Popen(
        [sys.executable, "-m", MODULE, str(folder)],
        cwd=REPOSITORY,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
