"""The search engine: cache, encoder and index in turn, within a request's deadline."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from services.contracts.errors import GatewayTimeout, Unprocessable
from services.contracts.retrieval.indexes import IndexMode
from services.contracts.retrieval.search import MAX_HITS, MAX_WORKED_HITS, Filter
from services.retrieval.engine.admission import QueryAdmission
from services.retrieval.engine.cache import HitCache
from services.retrieval.engine.catalog import Catalog, IndexLocator
from services.retrieval.engine.encoders import CANDIDATES, EncoderClients, FindSocket, reranked
from services.retrieval.engine.served import BatcherStats, EncodeRequest, ServedIndex
from services.retrieval.settings import RetrievalSettings
from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.index import Index
from services.retrieval.store.query import Hit, Query
from services.retrieval.store.store import IndexStore

MAX_ANSWER_BYTES = 64 << 20
CHUNK = 16
"""Queries per chunk: larger requests are spread over the threads in chunks."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search request; ``mode`` None uses everything the index has."""

    queries: Sequence[str]
    topk: int
    mode: IndexMode | None = None
    filter: Filter | None = None
    rerank: bool = False
    highlights: bool = False


@dataclass(frozen=True, slots=True)
class SearchResults:
    """Hits of each query, best first, and the index they come from."""

    served: ServedIndex
    mode: IndexMode
    hits: Sequence[Sequence[Hit]]


class SearchEngine:
    """Everything needed to answer searches; belongs to one event loop."""

    def __init__(
        self,
        settings: RetrievalSettings,
        find_socket: FindSocket,
        is_building: Callable[[], bool] = lambda: False,
    ) -> None:
        """``is_building`` returns whether the default index is being built."""
        self.settings = settings
        self.cache = HitCache(settings.retrieval_cache_mb << 20)
        self.admission = QueryAdmission(settings.retrieval_max_queries)
        self.stats = BatcherStats()
        self.encoders = EncoderClients(
            find_socket, settings.retrieval_encoder_device, settings.retrieval_reranker
        )
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix="search")
        self.catalog = Catalog(
            IndexLocator(IndexStore(settings.indexes_folder), settings.retrieval_index),
            settings.retrieval_search_device,
            self._served,
            is_building,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Follow the indexes within the block; close everything on exit."""
        try:
            async with self.catalog.following():
                yield
        finally:
            await self.encoders.close()
            self._threads.shutdown(wait=True, cancel_futures=True)

    async def answer(
        self,
        name: str | None,
        search: Search,
        seconds: float,
        write: Callable[[SearchResults], bytes],
    ) -> bytes:
        """Search an index (None: the default one) and serialize the answer within ``seconds``.

        Raises `UnknownIndex`, `IndexUnusable`, `Overloaded`, `GatewayTimeout`, `InvalidRequest`,
        encoder errors, and `Unprocessable` when the answer would be too large.
        """
        _check_size(search)
        deadline = time.monotonic() + seconds
        with self.admission.permits(len(search.queries), seconds):
            try:
                async with asyncio.timeout(seconds):
                    served = self.catalog.get_open(name) or await self.catalog.get(name)
                    with served.used():
                        found = await self._found(served, search, deadline)
                        return await _serialize(found, search, write)
            except IndexUnusable:
                if (damaged := self.catalog.get_open(name)) is not None:
                    self.catalog.check(name, damaged)
                raise
            except TimeoutError:
                raise GatewayTimeout(f"no answer within {seconds:g} s") from None

    def _served(self, index: Index) -> ServedIndex:
        return ServedIndex(index, self.settings, self._threads, self.encoders, self.stats)

    async def _found(self, served: ServedIndex, search: Search, deadline: float) -> SearchResults:
        mode = served.mode_for(search.mode)
        if search.rerank:
            wider = replace(search, topk=max(search.topk, CANDIDATES))
            hits = await self._hits(served, wider, mode, deadline)
            encoder = await self.encoders.client(served.encoder)
            best = await reranked(encoder, search.queries, hits, deadline)
            return SearchResults(served, mode, [found[: search.topk] for found in best])
        return SearchResults(served, mode, await self._hits(served, search, mode, deadline))

    async def _hits(
        self, served: ServedIndex, search: Search, mode: IndexMode, deadline: float
    ) -> Sequence[Sequence[Hit]]:
        """Hits of each query: cached ones, and a search for the rest."""
        if not self.cache.is_on:
            return await _search(served, search, search.queries, mode, deadline)
        state = self._state(served, search, mode)
        keys = [(*state, query) for query in search.queries]
        known = [self.cache.get(key) for key in keys]
        missing = [n for n, hits in enumerate(known) if hits is None]
        if missing:
            queries = [search.queries[n] for n in missing]
            found = await _search(served, search, queries, mode, deadline)
            for n, hits in zip(missing, found, strict=True):
                known[n] = hits
                self.cache.put(keys[n], search.queries[n], hits)
        return [hits for hits in known if hits is not None]

    def _state(self, served: ServedIndex, search: Search, mode: IndexMode) -> tuple[Hashable, ...]:
        """Cache key: everything the hits depend on except the query text."""
        only = search.filter.model_dump_json() if search.filter is not None else None
        return (served.serial, served.index.generation, mode, search.topk, only)


def _check_size(search: Search) -> None:
    limit = MAX_WORKED_HITS if search.rerank or search.highlights else MAX_HITS
    hits = len(search.queries) * search.topk
    if hits > limit:
        kind = "reranked or highlighted" if limit == MAX_WORKED_HITS else "returned"
        raise Unprocessable(
            f"{len(search.queries)} queries with topk {search.topk} ask for {hits} passages; "
            f"{limit} can be {kind} per request",
            param="topk",
        )


async def _serialize(
    found: SearchResults, search: Search, write: Callable[[SearchResults], bytes]
) -> bytes:
    size = sum(len(hit.document) for hits in found.hits for hit in hits)
    if size > MAX_ANSWER_BYTES:
        raise Unprocessable(
            f"the passages found have {size} bytes; an answer holds {MAX_ANSWER_BYTES}",
            param="topk",
        )
    if search.highlights:  # keep the event loop responsive
        return await asyncio.to_thread(write, found)
    return write(found)


async def _search(
    served: ServedIndex,
    search: Search,
    queries: Sequence[str],
    mode: IndexMode,
    deadline: float,
) -> Sequence[Sequence[Hit]]:
    if len(queries) <= CHUNK:
        return await _chunk(served, search, queries, mode, deadline)
    chunks = [queries[start : start + CHUNK] for start in range(0, len(queries), CHUNK)]
    found = await asyncio.gather(
        *(_chunk(served, search, chunk, mode, deadline) for chunk in chunks)
    )
    return [hits for chunk in found for hits in chunk]


async def _chunk(
    served: ServedIndex,
    search: Search,
    texts: Sequence[str],
    mode: IndexMode,
    deadline: float,
) -> Sequence[Sequence[Hit]]:
    topk, only = search.topk, search.filter
    if mode is IndexMode.BM25:
        queries = [Query(text, mode, topk, None, only) for text in texts]
    else:
        vectors = await served.encodings.submit(EncodeRequest(texts, deadline), len(texts))
        queries = [
            Query(text, mode, topk, vector, only)
            for text, vector in zip(texts, vectors, strict=True)
        ]
    return await served.searches.submit(queries, len(queries))
