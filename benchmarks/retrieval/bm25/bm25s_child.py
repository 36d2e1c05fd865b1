"""bm25s: scores precomputed at build time in a sparse matrix that can be memory-mapped."""

from collections.abc import Sequence
from pathlib import Path

import bm25s  # type: ignore[import-not-found]  # in an environment of its own

from benchmarks.retrieval.bm25.measured import TOPK, Search, run, token_lists


def build(passages: Path, index: Path) -> None:
    """Build and save the matrix."""
    retriever = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numba")
    retriever.index(list(token_lists(passages)), show_progress=False)
    retriever.save(str(index))


def opened(index: Path) -> Search:
    """Memory-map the saved matrix."""
    retriever = bm25s.BM25.load(str(index), mmap=True, override_params={"backend": "numba"})

    def search(queries: Sequence[list[str]]) -> list[list[int]]:
        known = [
            [token for token in query if token in retriever.vocab_dict] or [""] for query in queries
        ]
        numbers, scores = retriever.retrieve(known, k=TOPK, show_progress=False)
        return [
            [int(number) for number, score in zip(*row, strict=True) if score > 0]
            for row in zip(numbers, scores, strict=True)
        ]

    return search


if __name__ == "__main__":
    run("bm25s", build, opened)
