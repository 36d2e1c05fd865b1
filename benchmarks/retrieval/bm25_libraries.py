"""bm25s compared with tantivy on the same passages and tokens.

    .venv/bin/python -m benchmarks.retrieval.bm25_libraries --bm25s PYTHON [--synthetic N]

PYTHON is an interpreter with the packages bm25s and numba, which Temper does not depend on.
Passages are the descriptions of Debian's packages and the glosses of WordNet, queried by their
headings, or N synthetic ones. Each library runs in its own process on one thread, with the tokens
of `services.retrieval.store.tokens` and BM25 with k1 = 1.2 and b = 0.75.

Result: quality is equal. Compiled by numba, bm25s is about as fast (50 times slower without), but
takes more than twice the build time with the whole corpus in memory (6 GB for a million passages),
needs several times the memory and disk to search, has no filters, and must be rebuilt for each
passage that is added, replaced or deleted. So Temper uses tantivy.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.retrieval.quality import mean, ndcg
from services.retrieval.store.tokens import Analyzer
from tests.support.corpora import debian, synthetic, wordnet
from tests.support.corpora.passage import Passage
from tests.support.corpora.queries import Query, heading_queries

QUERIES = 1000
CHILD_SECONDS = 3600
REPOSITORY = Path(__file__).parents[2]


@dataclass(frozen=True)
class Corpus:
    """Passages and queries; without ``queries`` that have answers, quality is not measured."""

    passages: Iterable[Passage]
    texts: Sequence[str]
    queries: Sequence[Query] = ()


def main() -> None:
    """Compare the libraries."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bm25s", type=Path, required=True, help="a Python with bm25s and numba")
    parser.add_argument("--synthetic", type=int, default=0, help="number of synthetic passages")
    given = parser.parse_args()
    corpus = _synthetic(given.synthetic) if given.synthetic else _real()
    with tempfile.TemporaryDirectory(prefix="bm25-") as name:
        folder = Path(name)
        ids = _write_tokens(folder, corpus)
        print(f"{len(ids)} passages, {len(corpus.texts)} queries, top 10, one thread")
        for library, python in (("bm25s", given.bm25s), ("tantivy", Path(sys.executable))):
            built = _child(python, library, "build", folder)
            searched = _child(python, library, "search", folder)
            print(
                f"{library:>8}: built in {built['seconds']:.1f} s with {built['peak_mb']:.0f} MB,"
                f" {built['disk_mb']:.0f} MB on disk; opened in {searched['open_seconds']:.3f} s;"
                f" {searched['one_by_one']:.0f} queries/s one by one (p50 {searched['p50_ms']:.2f},"
                f" p99 {searched['p99_ms']:.2f} ms), {searched['batched']:.0f} in batches of 64;"
                f" {searched['resident_mb']:.0f} MB resident, {searched['private_mb']:.0f} of them"
                f" its own{_quality(folder, library, ids, corpus.queries)}"
            )


def _real() -> Corpus:
    passages = [*debian.passages(), *wordnet.passages()]
    queries = heading_queries(passages, QUERIES)
    return Corpus(passages, [query.text for query in queries], queries)


def _synthetic(count: int) -> Corpus:
    return Corpus(synthetic.passages(count), synthetic.questions(QUERIES, count))


def _write_tokens(folder: Path, corpus: Corpus) -> list[str]:
    """Write the tokens of each passage and query, one per line; return the passage ids."""
    analyzer = Analyzer("english")
    ids = []
    with open(folder / "passages.txt", "w", encoding="utf-8") as file:
        for passage in corpus.passages:
            ids.append(passage.id)
            file.write(" ".join(analyzer.tokens(passage.contents)) + "\n")
    lines = [" ".join(analyzer.query_tokens(text)) + "\n" for text in corpus.texts]
    (folder / "queries.txt").write_text("".join(lines), encoding="utf-8")
    return ids


def _child(python: Path, library: str, action: str, folder: Path) -> dict[str, float]:
    module = f"benchmarks.retrieval.bm25.{library}_child"
    command = [str(python), "-m", module, action, str(folder)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    output = subprocess.run(
        command,
        check=True,
        timeout=CHILD_SECONDS,
        env=one_thread,
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    metrics: dict[str, float] = json.loads(output)
    return metrics


def _quality(folder: Path, library: str, ids: Sequence[str], queries: Sequence[Query]) -> str:
    if not queries:
        return ""
    found = json.loads((folder / f"{library}.json").read_text())
    answers = [[ids[number] for number in numbers] for numbers in found]
    value = mean(ndcg(hits, one.relevant) for hits, one in zip(answers, queries, strict=True))
    return f"; nDCG@10 {value:.4f}"


if __name__ == "__main__":
    main()
