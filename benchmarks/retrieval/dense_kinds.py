"""Vector storage kinds compared: recall, size and speed.

Vectors are drawn in clusters like an encoder's (tests.support.corpora.vectors), or read from files:
float32 arrays saved by numpy, of passages and of queries. Run from the repository root:

    python -m benchmarks.retrieval.dense_kinds [--rows N] [--kinds flat sq8 ...]
        [--passages FILE.npy --queries FILE.npy]

Prints for each kind: recall@10 against exact search, the most that a search reads per million
vectors and relative to their float32 size, queries/s alone and in batches of 64, and the seconds to
build and open.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import faiss
import numpy as np
from numpy.typing import NDArray

from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.vectors.base import normalized
from services.retrieval.vectors.builder import DenseBuilder, DenseParameters
from services.retrieval.vectors.files import chunks
from services.retrieval.vectors.index import DenseIndex
from tests.support.corpora import vectors as drawn

QUERIES = 1024
BATCH = 64
NEIGHBORS = 10
CHUNK = 8192
SECONDS = 3.0

HEAD = (
    f"{'kind':<8} {'recall@10':>9} {'MB/million':>10} {'of float32':>10}"
    f" {'alone/s':>8} {'by 64/s':>8} {'build s':>8} {'open ms':>8}"
)

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Data:
    """Vectors to search, in repeatable chunks; queries, and their nearest neighbors."""

    rows: int
    passages: Callable[[], Iterator[Vectors]]
    queries: Vectors
    exact: NDArray[np.int64]


def main() -> None:
    """Measure each kind in turn."""
    arguments = _arguments()
    data = _read(arguments) if arguments.passages else _drawn(arguments.rows)
    print(f"{data.rows:,} vectors of {data.queries.shape[1]} dimensions, {faiss.__version__=}")
    print(HEAD, flush=True)
    for kind in arguments.kinds:
        with tempfile.TemporaryDirectory(prefix="temper-dense-") as folder:
            print(measured(kind, data, Path(folder)), flush=True)


def measured(kind: DenseKind, data: Data, folder: Path) -> str:
    """Return the line of a kind."""
    begun = time.perf_counter()
    with DenseBuilder(folder, DenseParameters(data.queries.shape[1], kind)) as builder:
        for chunk in data.passages():
            builder.append(chunk)
        builder.finish()
    built = time.perf_counter()
    index = DenseIndex.open(folder)
    opened = time.perf_counter()
    recall = _recall(index, data)
    alone = _rate(index, [data.queries[i : i + 1] for i in range(len(data.queries))])
    together = _rate(index, [data.queries[part] for part in chunks(0, len(data.queries), BATCH)])
    floats = 4 * data.rows * index.dimension
    name = kind if kind is index.kind else f"{kind}={index.kind}"
    line = (
        f"{name:<8} {recall:>9.4f} {index.memory_bytes / data.rows:>10.0f}"
        f" {index.memory_bytes / floats:>10.3f} {alone:>8.0f} {together:>8.0f}"
        f" {built - begun:>8.1f} {1000 * (opened - built):>8.1f}"
    )
    index.close()
    return line


def _recall(index: DenseIndex, data: Data) -> float:
    found = index.search(data.queries, NEIGHBORS).numbers
    shared = (found[:, :, None] == data.exact[:, None, :]).any(axis=2)
    return float(shared.mean())


def _rate(index: DenseIndex, batches: list[Vectors]) -> float:
    """Return queries per second, over all batches or a few seconds."""
    begun, queries = time.perf_counter(), 0
    for batch in batches:
        index.search(batch, NEIGHBORS)
        queries += len(batch)
        if time.perf_counter() - begun > SECONDS:
            break
    return queries / (time.perf_counter() - begun)


def _drawn(rows: int) -> Data:
    queries = drawn.questions(QUERIES)
    return Data(rows, lambda: drawn.vectors(rows), queries, _exact(queries, drawn.vectors(rows)))


def _read(arguments: argparse.Namespace) -> Data:
    passages = np.load(arguments.passages, mmap_mode="r")[: arguments.rows]
    queries = np.load(arguments.queries)[:QUERIES]
    queries = normalized(queries, passages.shape[1])

    def parts() -> Iterator[Vectors]:
        for part in chunks(0, len(passages), CHUNK):
            yield normalized(passages[part], passages.shape[1])

    return Data(len(passages), parts, queries, _exact(queries, parts()))


def _exact(queries: Vectors, passages: Iterable[Vectors]) -> NDArray[np.int64]:
    """Return the exact nearest neighbors, by exhaustive search."""
    scores = np.empty((len(queries), 0), dtype=np.float32)
    numbers = np.empty((len(queries), 0), dtype=np.int64)
    start = 0
    for chunk in passages:
        nearest = min(NEIGHBORS, len(chunk))
        some, rows = faiss.knn(queries, chunk, nearest, metric=faiss.METRIC_INNER_PRODUCT)
        scores, numbers = np.hstack([scores, some]), np.hstack([numbers, rows + start])
        best = np.argsort(-scores, axis=1, kind="stable")[:, :NEIGHBORS]
        scores = np.take_along_axis(scores, best, axis=1)
        numbers = np.take_along_axis(numbers, best, axis=1)
        start += len(chunk)
    return numbers


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--kinds", nargs="+", type=DenseKind, default=list(DenseKind))
    parser.add_argument("--passages", type=Path)
    parser.add_argument("--queries", type=Path)
    arguments = parser.parse_args()
    if (arguments.passages is None) != (arguments.queries is None):
        parser.error("--passages and --queries go together")
    return arguments


if __name__ == "__main__":
    main()
