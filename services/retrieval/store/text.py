"""The text index: BM25 search and lookups over tantivy."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import tantivy

from services.contracts.retrieval.search import Filter
from services.retrieval.store.errors import reading_from
from services.retrieval.store.metadata import bounded_term
from services.retrieval.store.schema import ID, NUMBER, TOKENS, filter_query

_LOOKUP_CHUNK = 512
_HEAP_BYTES = 15_000_000  # tantivy's minimum

Ranked = list[tuple[float, tantivy.DocAddress]]
"""(score, address within a `TextSearcher`), best first."""


class TextIndex:
    """The text index of a version; each `searcher` is an immutable snapshot."""

    def __init__(self, folder: Path) -> None:
        """Open it; raises IndexUnusable."""
        self._folder = folder
        self._index = _opened(folder)

    def searcher(self) -> "TextSearcher":
        """A snapshot after the last change; raises IndexUnusable."""
        with reading_from(self._folder):
            if os.access(self._folder, os.W_OK):
                self._index.reload()
            else:
                self._index = _opened(self._folder)
            return TextSearcher(self._folder, self._index, self._index.searcher())

    def writer(self) -> tantivy.IndexWriter:
        """A writer; one at a time across processes."""
        writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        # A process killed before its commit may have left files whose names the next commit would
        # reuse.
        writer.garbage_collect_files()
        return writer


@dataclass(frozen=True)
class TextSearcher:
    """A snapshot of the text index; thread-safe, and searching releases the GIL."""

    folder: Path
    index: tantivy.Index
    state: tantivy.Searcher

    @property
    def count(self) -> int:
        """Number of passages."""
        return self.state.num_docs

    def filter(self, conditions: Filter | None) -> tantivy.Query | None:
        """The conditions as the other methods take them."""
        return filter_query(self.index, conditions) if conditions is not None else None

    def ranked(
        self, tokens: Sequence[str], topk: int, wanted: tantivy.Query | None = None
    ) -> Ranked:
        """The passages that have some of the tokens, by BM25."""
        with reading_from(self.folder):
            words = self._words(tokens)
            if words is None or topk < 1:
                return []
            if wanted is not None:
                both = [(tantivy.Occur.Must, words), (tantivy.Occur.Must, wanted)]
                words = tantivy.Query.boolean_query(both)
            hits: Ranked = self.state.search(words, topk, count=False).hits
        return hits

    def numbers(self, addresses: list[tantivy.DocAddress]) -> list[int]:
        """The numbers of passages that were found; cheap for many at once."""
        with reading_from(self.folder):
            return [int(number or 0) for number in self.state.fast_field_values(NUMBER, addresses)]

    def number_of(self, document_id: str) -> int | None:
        """The number of the passage with that id."""
        query = self._term(ID, bounded_term(document_id))
        return next(iter(self._found(query, 1)), None)

    def present(self, numbers: Iterable[int], wanted: tantivy.Query | None = None) -> set[int]:
        """The given passage numbers that exist and match the filter."""
        present: set[int] = set()
        lookups = sorted(set(numbers))
        for start in range(0, len(lookups), _LOOKUP_CHUNK):
            part = lookups[start : start + _LOOKUP_CHUNK]
            any_of = [(tantivy.Occur.Should, self._term(NUMBER, number)) for number in part]
            query = tantivy.Query.boolean_query(any_of)
            if wanted is not None:
                both = [(tantivy.Occur.Must, query), (tantivy.Occur.Must, wanted)]
                query = tantivy.Query.boolean_query(both)
            present.update(self._found(query, len(part)))
        return present

    def matching(self, wanted: tantivy.Query | None, most: int | None = None) -> list[int] | None:
        """Numbers of all matching passages; None if there are more than ``most``."""
        query = wanted or tantivy.Query.all_query()
        with reading_from(self.folder):
            found: int = self.state.search(query, 1, count=True).count  # type: ignore[attr-defined]  # missing in tantivy's stubs
        return None if most is not None and found > most else self._found(query, max(1, found))

    def _found(self, query: tantivy.Query, most: int) -> list[int]:
        with reading_from(self.folder):
            hits = self.state.search(query, most, count=False).hits
        return self.numbers([address for _, address in hits])

    def _term(self, field: str, value: str | int) -> tantivy.Query:
        term = tantivy.Query.term_query(self.index.schema, field, value, index_option="basic")
        return tantivy.Query.const_score_query(term, 0.0)

    def _words(self, tokens: Sequence[str]) -> tantivy.Query | None:
        """A query for the tokens, weighted by their counts. Common words count, too: a passage
        that has them comes before one that does not, and is found by them alone."""
        queries = [self._word(term, times) for term, times in Counter(tokens).items()]
        if len(queries) < 2:
            return queries[0] if queries else None
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])

    def _word(self, term: str, times: int) -> tantivy.Query:
        query = tantivy.Query.term_query(self.index.schema, TOKENS, term, index_option="freq")
        return query if times == 1 else tantivy.Query.boost_query(query, float(times))


def _opened(folder: Path) -> tantivy.Index:
    """Open a tantivy index. tantivy creates a lock file even to read, so a read-only folder is
    opened through a temporary folder of symlinks."""
    with reading_from(folder), TemporaryDirectory(prefix="temper-index-") as aside:
        place = folder
        if not os.access(folder, os.W_OK):
            place = Path(aside)
            for path in folder.iterdir():
                if path.suffix != ".lock":
                    (place / path.name).symlink_to(path.resolve())
        index = tantivy.Index.open(str(place))
        index.config_reader("manual")
        return index
