"""An LRU cache of hits."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from services.retrieval.store.query import Hit

ENTRY_BYTES = 500
HIT_BYTES = 300
"""Approximate overhead of an entry and of a hit beyond their texts."""


@dataclass
class CacheStats:
    """Counters of the cache."""

    hits: int = 0
    misses: int = 0
    entries: int = 0
    held_bytes: int = 0


class HitCache:
    """An LRU cache of hits, bounded by ``limit`` bytes; 0 disables it.

    Keys contain everything the hits depend on, including the index's generation, so stale entries
    are never found and age out.
    """

    def __init__(self, limit: int) -> None:
        self.stats = CacheStats()
        self._limit = limit
        self._entries: OrderedDict[Hashable, tuple[Sequence[Hit], int]] = OrderedDict()

    @property
    def is_on(self) -> bool:
        """Whether caching is enabled."""
        return self._limit > 0

    def get(self, key: Hashable) -> Sequence[Hit] | None:
        """The hits cached under ``key``, or None."""
        entry = self._entries.get(key)
        if entry is None:
            self.stats.misses += 1
            return None
        self.stats.hits += 1
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Hashable, text: str, hits: Sequence[Hit]) -> None:
        """Cache the hits of a query, evicting the least recently used."""
        size = ENTRY_BYTES + len(text) + sum(HIT_BYTES + len(hit.document) for hit in hits)
        if size > self._limit:
            return
        _, replaced = self._entries.pop(key, ((), 0))
        self._entries[key] = (hits, size)
        self.stats.held_bytes += size - replaced
        while self.stats.held_bytes > self._limit:
            _, (_, freed) = self._entries.popitem(last=False)
            self.stats.held_bytes -= freed
        self.stats.entries = len(self._entries)
