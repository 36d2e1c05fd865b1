"""tantivy: an inverted index with top-k pruning, configured as in Temper."""

from collections.abc import Sequence
from pathlib import Path

import tantivy

from benchmarks.retrieval.bm25.measured import TOPK, Search, run, token_lists
from services.retrieval.store.schema import NUMBER, TOKENS, new_schema
from services.retrieval.store.text import TextIndex


def build(passages: Path, index: Path) -> None:
    """Write and commit the index."""
    writer = tantivy.Index(new_schema(), path=str(index)).writer(128_000_000, num_threads=1)
    for number, tokens in enumerate(token_lists(passages)):
        entry = tantivy.Document()
        entry.add_unsigned(NUMBER, number)
        entry.add_text(TOKENS, " ".join(tokens))
        writer.add_document(entry)
    writer.commit()
    writer.wait_merging_threads()


def opened(index: Path) -> Search:
    """Open the memory-mapped index."""
    searcher = TextIndex(index).searcher()

    def search(queries: Sequence[list[str]]) -> list[list[int]]:
        found = [searcher.ranked(query, TOPK) for query in queries]
        numbers = iter(searcher.numbers([address for ranked in found for _, address in ranked]))
        return [[next(numbers) for _ in ranked] for ranked in found]

    return search


if __name__ == "__main__":
    run("tantivy", build, opened)
