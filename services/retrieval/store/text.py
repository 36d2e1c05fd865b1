"""The words of passages, and which passages there are: tantivy's index, and looking things up."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

import tantivy

from services.contracts.retrieval import Filter
from services.retrieval.store.errors import reading_from
from services.retrieval.store.metadata import bounded_term
from services.retrieval.store.schema import ID, NUMBER, TOKENS, filter_query

MAX_QUERY_TERMS = 64
"""Different words of a query that are looked up: of a longer one, those that say most."""

COMMON_PASSAGES = 1000
COMMON_SHARE = 0.3
"""A word that more passages than so many have, and more than this share of them, says next to
nothing and takes most of the time: only a query of nothing but such words is looked up by them.
On package descriptions, glosses and manual pages answers are as good with it as without; a share
of 0.1 makes them worse, and 0.5 takes twice as long."""

_LOOKED_UP_AT_ONCE = 512
_FREQUENCIES_KEPT = 100_000
_HEAP_BYTES = 15_000_000  # the least that the library takes

Ranked = list[tuple[float, tantivy.DocAddress]]
"""Scores, best first, and where in a `TextSearcher` the passages are."""


class TextIndex:
    """The text index of a version, open for reading. Each `searcher` is a state that stays."""

    def __init__(self, folder: Path) -> None:
        """Open it; raises IndexUnusable."""
        self._folder = folder
        self._index = _opened(folder)

    def searcher(self) -> "TextSearcher":
        """The state after the last change; raises IndexUnusable."""
        with reading_from(self._folder):
            if os.access(self._folder, os.W_OK):
                self._index.reload()
            else:
                self._index = _opened(self._folder)
            return TextSearcher(self._folder, self._index, self._index.searcher())

    def writer(self) -> tantivy.IndexWriter:
        """For changes; there is one at a time, in all processes."""
        writer = self._index.writer(heap_size=_HEAP_BYTES, num_threads=1)
        # A process that was killed before it committed may have left files, and the next commit
        # would give its own the same names.
        writer.garbage_collect_files()
        return writer


@dataclass(frozen=True)
class TextSearcher:
    """One state of a text index. Safe to use from threads; searching lets go of Python's lock."""

    folder: Path
    index: tantivy.Index
    state: tantivy.Searcher
    frequencies: dict[str, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many passages there are."""
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
        """The numbers of passages that were found; asked for many at once, it costs little."""
        with reading_from(self.folder):
            return [int(number or 0) for number in self.state.fast_field_values(NUMBER, addresses)]

    def number_of(self, document_id: str) -> int | None:
        """The number of the passage with that id."""
        query = self._term(ID, bounded_term(document_id))
        return next(iter(self._found(query, 1)), None)

    def present(self, numbers: Iterable[int], wanted: tantivy.Query | None = None) -> set[int]:
        """Those of the numbers whose passages there are, and that meet the conditions."""
        present: set[int] = set()
        asked = sorted(set(numbers))
        for start in range(0, len(asked), _LOOKED_UP_AT_ONCE):
            part = asked[start : start + _LOOKED_UP_AT_ONCE]
            any_of = [(tantivy.Occur.Should, self._term(NUMBER, number)) for number in part]
            query = tantivy.Query.boolean_query(any_of)
            if wanted is not None:
                both = [(tantivy.Occur.Must, query), (tantivy.Occur.Must, wanted)]
                query = tantivy.Query.boolean_query(both)
            present.update(self._found(query, len(part)))
        return present

    def matching(self, wanted: tantivy.Query | None, most: int | None = None) -> list[int] | None:
        """The numbers of all passages that meet the conditions; None if these are over ``most``."""
        query = wanted or tantivy.Query.all_query()
        with reading_from(self.folder):
            found: int = self.state.search(query, 1, count=True).count  # type: ignore[attr-defined]
        return None if most is not None and found > most else self._found(query, max(1, found))

    def _found(self, query: tantivy.Query, most: int) -> list[int]:
        with reading_from(self.folder):
            hits = self.state.search(query, most, count=False).hits
        return self.numbers([address for _, address in hits])

    def _term(self, field: str, value: str | int) -> tantivy.Query:
        term = tantivy.Query.term_query(self.index.schema, field, value, index_option="basic")
        return tantivy.Query.const_score_query(term, 0.0)

    def _words(self, tokens: Sequence[str]) -> tantivy.Query | None:
        """A query for the tokens; a repeated one counts as often as it is there."""
        counts = Counter(tokens)
        terms = self._telling(counts) if len(counts) > 1 else list(counts)
        queries = [self._word(term, counts[term]) for term in terms]
        if len(queries) < 2:
            return queries[0] if queries else None
        return tantivy.Query.boolean_query([(tantivy.Occur.Should, query) for query in queries])

    def _word(self, term: str, times: int) -> tantivy.Query:
        query = tantivy.Query.term_query(self.index.schema, TOKENS, term, index_option="freq")
        return query if times == 1 else tantivy.Query.boost_query(query, float(times))

    def _telling(self, counts: Counter[str]) -> list[str]:
        """The words worth looking up: not too common, and not too many."""
        common = max(COMMON_PASSAGES, COMMON_SHARE * self.count)
        found = {term: self._passages_with(term) for term in counts}
        terms = [term for term in counts if 0 < found[term] <= common]
        terms = terms or [term for term in counts if found[term]]
        if len(terms) > MAX_QUERY_TERMS:
            terms.sort(key=lambda term: counts[term] * log(1 + self.count / found[term]))
            terms = terms[-MAX_QUERY_TERMS:]
        return terms

    def _passages_with(self, term: str) -> int:
        """How many passages have the word; the words of queries are the same again and again."""
        found = self.frequencies.get(term)
        if found is None:
            found = self.state.doc_freq(TOKENS, term)
            if len(self.frequencies) < _FREQUENCIES_KEPT:
                self.frequencies[term] = found
        return found


def _opened(folder: Path) -> tantivy.Index:
    """The library locks a file in the folder to read it, so one without write access is opened by
    way of another that has links to its files."""
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
