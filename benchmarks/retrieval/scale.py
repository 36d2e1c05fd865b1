"""A million passages: build, startup, queries, memory, and the loss from compression."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.retrieval import report
from benchmarks.retrieval.builds import build
from benchmarks.retrieval.comparison import Plan, in_process, serving
from benchmarks.retrieval.libraries import Encoding
from benchmarks.retrieval.measurement import measure
from benchmarks.retrieval.quality import mean, recall
from benchmarks.retrieval.report import Verdict
from benchmarks.retrieval.vectors_build import build_vectors
from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.store.store import open_path
from services.retrieval.vectors.index import DenseIndex
from tests.support.corpora import synthetic, vectors

QUESTIONS = 100_000
JUDGED = 500
CONCURRENCY = (1, 64)


def measure_scale(
    folder: Path, modes: Sequence[IndexMode], count: int, seconds: float
) -> Iterator[Verdict]:
    """Measure a BM25 index and a vector index of ``count`` passages each."""
    questions = folder / f"questions-{count}.txt"
    with open(questions, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(text) + "\n" for text in synthetic.questions(QUESTIONS, count))
    if IndexMode.BM25 in modes:
        name = f"words-{count}"
        _build_words(folder, name, count)
        yield from _serve(_plan(folder, name, count, questions, seconds), IndexMode.BM25, count)
    if IndexMode.DENSE in modes:
        name = f"vectors-{count}"
        indexes = folder / "indexes"
        if not (indexes / name / "current").exists():
            build_vectors(indexes, name, count)
        yield from _serve(_plan(folder, name, count, questions, seconds), IndexMode.DENSE, count)
        yield _recall(indexes / name, count)


def _plan(folder: Path, index: str, count: int, questions: Path, seconds: float) -> Plan:
    return Plan(
        indexes=folder / "indexes",
        index=index,
        passages=count,
        different=questions,
        repeating=questions,
        concurrency=CONCURRENCY,
        together=[1],
        seconds=seconds,
    )


def _build_words(folder: Path, name: str, count: int) -> None:
    indexes = folder / "indexes"
    if (indexes / name / "current").exists():
        return
    corpus = folder / f"{name}.jsonl"
    with open(corpus, "w", encoding="utf-8") as file:
        for number, text in synthetic.texts(count):
            file.write(json.dumps({"id": str(number), "contents": f'"{number}"\n{text}'}) + "\n")
    print(build(indexes, name, corpus, IndexMode.BM25), flush=True)
    corpus.unlink()


def _serve(plan: Plan, mode: IndexMode, count: int) -> Iterator[Verdict]:
    with serving(plan, mode) as server:
        first = server.start_seconds
        print(f"{plan.index}: the first answer {first:.2f} s after the start", flush=True)
        peak = 0
        for concurrency in plan.concurrency:
            cell = measure(server, plan.ask(mode, 1, concurrency))
            print(report.row("ours", cell), flush=True)
            peak = max(peak, cell.peak_bytes)
            if mode is IndexMode.BM25 and concurrency == 1:
                yield report.alone(cell)
            elif mode is IndexMode.BM25:
                direct = in_process(plan, mode, Encoding.OWN)
                yield report.against_libraries(cell, direct.best, count)
    print(f"{plan.index}: {peak / 2**20 / count * 1e6:.0f} MB of memory for a million passages")
    yield Verdict(f"{mode}: start with {count:,} passages under 2 s", f"{first:.2f} s", first < 2)


def _recall(index: Path, count: int) -> Verdict:
    """Return the recall of the default vector kind against exact search."""
    asked = vectors.questions(JUDGED)
    exact = vectors.nearest(asked, count)
    dense = DenseIndex.open(open_path(index).index.folder.dense)
    found = dense.search(asked, 10).numbers
    value = mean(map(recall, found.tolist(), exact.tolist()))
    share = dense.memory_bytes / (count * vectors.DIMENSION * 4)
    return Verdict(
        f"{dense.kind}: recall@10 at least 0.97 of exact in a quarter of its memory",
        f"{value:.3f} in {share:.2f}",
        value >= 0.97 and share <= 0.25,
    )
