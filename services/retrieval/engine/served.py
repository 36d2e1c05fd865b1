"""A served index with its batchers: concurrent requests are searched together."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, count

import numpy as np

from services.contracts.errors import ConfigurationError, InvalidRequest, Unavailable
from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.encoder.client import EncoderClient
from services.retrieval.encoder.specification import EncoderDescription, TextKind
from services.retrieval.engine.batching import Batcher, BatchStats
from services.retrieval.engine.encoders import EncoderClients, check_same
from services.retrieval.settings import RetrievalSettings
from services.retrieval.store.index import Index
from services.retrieval.store.query import Hit, Query

_serials = count()

CONCURRENT_ENCODINGS = 2
"""Double buffering: one batch is computed while the next is in transit."""


@dataclass(frozen=True, slots=True)
class EncodeRequest:
    """Texts to encode before ``deadline`` (monotonic clock)."""

    texts: Sequence[str]
    deadline: float


@dataclass(frozen=True)
class BatcherStats:
    """Counters of all batchers."""

    encoded: BatchStats = field(default_factory=BatchStats)
    searched: BatchStats = field(default_factory=BatchStats)


class ServedIndex:
    """One version of an index, reference-counted: closed once retired and unused.

    ``serial`` is unique within the process.
    """

    def __init__(
        self,
        index: Index,
        settings: RetrievalSettings,
        threads: Executor,
        encoders: EncoderClients,
        stats: BatcherStats,
    ) -> None:
        self.index = index
        self.serial = next(_serials)
        self.problem: str | None = None
        self.mode = index.manifest.mode
        self.encoder = _encoder_of(index)
        self.searches: Batcher[Sequence[Query], list[list[Hit]]] = Batcher(
            self._search,
            stats.searched,
            parallel=settings.threads,
            largest=settings.retrieval_batch,
        )
        self.encodings: Batcher[EncodeRequest, np.ndarray] = Batcher(
            self._encode,
            stats.encoded,
            parallel=CONCURRENT_ENCODINGS,
            largest=settings.retrieval_batch,
            max_wait=settings.retrieval_merge_ms / 1000,
        )
        self._usual_mode = settings.retrieval_mode
        self._threads = threads
        self._encoders = encoders
        self._checked: EncoderClient | None = None
        self._users = 0
        self._is_retired = False

    @contextmanager
    def used(self) -> Iterator[None]:
        """Keep it open within the block."""
        self._users += 1
        try:
            yield
        finally:
            self._leave()

    def retire(self) -> None:
        """Close it once unused."""
        self._is_retired = True
        self._close_if_done()

    def mode_for(self, requested: IndexMode | None) -> IndexMode:
        """Resolve the mode of a search; raises `InvalidRequest` for one the index lacks."""
        if requested is None and self._usual_mode is not None:
            is_possible = self.mode in (self._usual_mode, IndexMode.HYBRID)
            return self._usual_mode if is_possible else self.mode
        if requested is None or requested is self.mode or self.mode is IndexMode.HYBRID:
            return requested or self.mode
        raise InvalidRequest(
            f"index {self.index.name!r} is searched by {self.mode.value}, not by {requested.value}",
            param="mode",
        )

    async def vectors(self, texts: Sequence[str], kind: TextKind, deadline: float) -> np.ndarray:
        """Encode ``texts`` with the index's encoder: float32 (texts, dimension).

        Raises `Unavailable` when the encoder is missing or its vectors do not match.
        """
        try:
            client = await self._checked_encoder(deadline)
            return await client.encode(texts, kind, deadline=deadline)
        except ConfigurationError as error:
            raise Unavailable(error.message, code=error.code) from error

    def _search(
        self, batch: Sequence[Sequence[Query]]
    ) -> "asyncio.Future[list[list[list[Hit]] | Exception]]":
        loop = asyncio.get_running_loop()
        found = loop.run_in_executor(self._threads, _search_all, self.index, batch)
        # An abandoned search keeps the index open too.
        self._users += 1
        found.add_done_callback(lambda _done: self._leave())
        return found

    def _encode(
        self, batch: Sequence[EncodeRequest]
    ) -> "asyncio.Future[list[np.ndarray | Exception]]":
        return asyncio.ensure_future(self._encode_all(batch))

    async def _encode_all(self, batch: Sequence[EncodeRequest]) -> list[np.ndarray | Exception]:
        texts = list(chain.from_iterable(each.texts for each in batch))
        deadline = max(each.deadline for each in batch)
        vectors = await self.vectors(texts, TextKind.QUERY, deadline)
        return _parts(vectors, [len(each.texts) for each in batch])

    async def _checked_encoder(self, deadline: float) -> EncoderClient:
        """The encoder, verified once to be the one the index was built with."""
        if self._checked is None:
            client = await self._encoders.client(self.encoder)
            if self.encoder is not None:
                await check_same(client, self.encoder, deadline)
            self._checked = client
        return self._checked

    def _leave(self) -> None:
        self._users -= 1
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._is_retired and self._users == 0:
            self._threads.submit(self.index.close)


def deadline_in(seconds: float) -> float:
    """A deadline ``seconds`` from now, on the encoders' clock."""
    return time.monotonic() + seconds


def _encoder_of(index: Index) -> EncoderDescription | None:
    dense = index.manifest.dense
    if dense is None or dense.encoder is None:
        return None
    return EncoderDescription.model_validate(dense.encoder)


def _search_all(
    index: Index, batch: Sequence[Sequence[Query]]
) -> list[list[list[Hit]] | Exception]:
    """Results or the error of each request; one request never fails because of another."""
    try:
        hits = iter(index.search([query for queries in batch for query in queries]))
        return [[next(hits) for _ in queries] for queries in batch]
    except Exception as error:
        if len(batch) == 1:
            return [error]
        return [one for queries in batch for one in _search_all(index, [queries])]


def _parts(vectors: np.ndarray, lengths: Sequence[int]) -> list[np.ndarray | Exception]:
    ends = np.cumsum(lengths)
    return [vectors[end - length : end] for end, length in zip(ends, lengths, strict=True)]
