"""A snapshot of an index, against which a search runs."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.store.nearest import Nearest
from services.retrieval.store.passages import Passages
from services.retrieval.store.query import Hit, Query, Ranking, fuse
from services.retrieval.store.text import Ranked, TextSearcher
from services.retrieval.store.tokens import Analyzer

_PAGE = 512
_MIN_PART = 4  # minimum queries per thread


@dataclass(frozen=True)
class Threads:
    """A thread pool; ``count`` includes the calling thread."""

    pool: Executor
    count: int


@dataclass(frozen=True)
class IndexState:
    """A snapshot; ``stamp`` identifies the commit it was loaded from."""

    stamp: str
    analyzer: Analyzer
    text: TextSearcher
    passages: Passages
    nearest: Nearest | None

    def search(self, queries: Sequence[Query], threads: Threads) -> list[list[Hit]]:
        """Hits of each query; BM25 lookups are spread over ``threads``."""
        by_words = self._by_words(queries, threads)
        by_vector = self._by_vector(queries)
        hits = []
        for place, query in enumerate(queries):
            if query.mode is IndexMode.HYBRID:
                hits.append(self._fused(query, by_words[place], by_vector[place]))
            else:
                ranking = (by_words if query.mode is IndexMode.BM25 else by_vector)[place]
                hits.append([self._hit(number, score) for number, score in ranking])
        return hits

    def numbers_after(self, number: int) -> Iterator[int]:
        """Numbers of existing passages after ``number``."""
        for start in range(number + 1, self.passages.rows, _PAGE):
            page = range(start, min(start + _PAGE, self.passages.rows))
            yield from sorted(self.text.present(page))

    def _by_words(self, queries: Sequence[Query], threads: Threads) -> dict[int, Ranking]:
        texts = {place: one for place, one in enumerate(queries) if one.mode is not IndexMode.DENSE}
        found = self._ranked_by(list(texts.values()), threads)
        addresses = [address for ranked in found for _, address in ranked]
        numbers = iter(self.text.numbers(addresses) if addresses else [])
        return {
            place: [(next(numbers), score) for score, _ in ranked]
            for place, ranked in zip(texts, found, strict=True)
        }

    def _ranked_by(self, queries: Sequence[Query], threads: Threads) -> list[Ranked]:
        """One part per core, including this thread; one thread per query would cost more."""
        size = max(_MIN_PART, -(-len(queries) // threads.count))
        parts = [queries[start : start + size] for start in range(size, len(queries), size)]
        others = [threads.pool.submit(self._each_ranked, part) for part in parts]
        found = self._each_ranked(queries[:size])
        for other in others:
            found += other.result()
        return found

    def _each_ranked(self, queries: Sequence[Query]) -> list[Ranked]:
        return [self._ranked(query) for query in queries]

    def _ranked(self, query: Query) -> Ranked:
        tokens = self.analyzer.query_tokens(query.text)
        return self.text.ranked(tokens, _depth(query), self.text.filter(query.filter))

    def _by_vector(self, queries: Sequence[Query]) -> dict[int, Ranking]:
        """Queries with equal filters are searched in one batch."""
        groups: dict[str, list[int]] = {}
        rankings: dict[int, Ranking] = {}
        for place, query in enumerate(queries):
            if query.is_blank:
                rankings[place] = []
            elif query.mode is not IndexMode.BM25:
                conditions = query.filter.model_dump_json() if query.filter else ""
                groups.setdefault(conditions, []).append(place)
        for places in groups.values():
            found = self._nearest([queries[place] for place in places])
            rankings.update(zip(places, found, strict=True))
        return rankings

    def _nearest(self, queries: Sequence[Query]) -> Iterator[Ranking]:
        if self.nearest is None:
            raise ValueError("the index has no vectors")
        vectors = np.stack([_vector(query) for query in queries])
        topk = max(_depth(query) for query in queries)
        found = self.nearest.ranked(vectors, topk, self.text.filter(queries[0].filter))
        return (ranking[: _depth(query)] for query, ranking in zip(queries, found, strict=True))

    def _fused(self, query: Query, by_words: Ranking, by_vector: Ranking) -> list[Hit]:
        rankings = {IndexMode.BM25: by_words, IndexMode.DENSE: by_vector}
        return [
            Hit(one.number, one.score, self.passages.document(one.number), one.parts)
            for one in fuse(rankings, query.fusion, query.topk)
        ]

    def _hit(self, number: int, score: float) -> Hit:
        return Hit(number, score, self.passages.document(number))


def _depth(query: Query) -> int:
    """Ranking depth a query needs."""
    if query.mode is IndexMode.HYBRID:
        return max(query.topk, query.fusion.depth)
    return query.topk


def _vector(query: Query) -> np.ndarray:
    if query.vector is None:
        raise ValueError(f"a query of mode {query.mode} needs its vector")
    return query.vector
