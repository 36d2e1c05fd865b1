"""Answers to queries that were asked before."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from services.retrieval.store.query import Hit

ENTRY_BYTES = 500
HIT_BYTES = 300
"""About what an entry and a hit take beside the texts that they hold."""


@dataclass
class CacheFigures:
    """What the cache has come to so far."""

    hits: int = 0
    misses: int = 0
    entries: int = 0
    held_bytes: int = 0


class HitCache:
    """The hits of the queries asked last, up to ``limit`` bytes; with a limit of 0 it keeps none.

    A key has everything that the hits depend on, the state of the index among it: what has
    changed is not found any more, and what is not found is dropped in time.
    """

    def __init__(self, limit: int) -> None:
        self.figures = CacheFigures()
        self._limit = limit
        self._entries: OrderedDict[Hashable, tuple[Sequence[Hit], int]] = OrderedDict()

    @property
    def is_on(self) -> bool:
        """Whether it keeps anything."""
        return self._limit > 0

    def get(self, key: Hashable) -> Sequence[Hit] | None:
        """The hits kept under ``key``; None where there are none."""
        entry = self._entries.get(key)
        if entry is None:
            self.figures.misses += 1
            return None
        self.figures.hits += 1
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, text: str, hits: Sequence[Hit]) -> None:
        """Keep the hits of a query; what was not asked for longest makes room."""
        size = ENTRY_BYTES + len(text) + sum(HIT_BYTES + len(hit.document) for hit in hits)
        if size > self._limit:
            return
        _, replaced = self._entries.pop(key, ((), 0))
        self._entries[key] = (hits, size)
        self.figures.held_bytes += size - replaced
        while self.figures.held_bytes > self._limit:
            _, (_, freed) = self._entries.popitem(last=False)
            self.figures.held_bytes -= freed
        self.figures.entries = len(self._entries)
