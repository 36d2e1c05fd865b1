"""Hits are cached within a limit, and the least recently used are evicted first."""

from hypothesis import given
from hypothesis import strategies as st

from services.retrieval.engine.cache import ENTRY_BYTES, HIT_BYTES, HitCache
from services.retrieval.store.query import Hit

SIZE = ENTRY_BYTES + HIT_BYTES + 10 + 1


def hits(number: int) -> list[Hit]:
    return [Hit(number, 1.0, b"0123456789")]


def test_cached_hits_are_found_and_counted() -> None:
    cache = HitCache(10 * SIZE)
    cache.put("key", "q", hits(1))

    assert cache.get("key") == hits(1)
    assert cache.get("other") is None
    assert (cache.stats.hits, cache.stats.misses, cache.stats.entries) == (1, 1, 1)


def test_the_least_recently_used_entry_is_evicted() -> None:
    cache = HitCache(2 * SIZE)
    cache.put("a", "q", hits(1))
    cache.put("b", "q", hits(2))
    cache.get("a")
    cache.put("c", "q", hits(3))

    assert cache.get("a") is not None
    assert cache.get("b") is None
    assert cache.get("c") is not None


def test_a_zero_limit_disables_the_cache() -> None:
    cache = HitCache(0)
    cache.put("key", "q", hits(1))

    assert not cache.is_on
    assert cache.get("key") is None


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3)), max_size=60))
def test_the_cache_is_bounded_and_correct(
    actions: list[tuple[int, int]],
) -> None:
    limit = 3 * SIZE
    cache = HitCache(limit)
    put: dict[int, list[Hit]] = {}
    for key, kind in actions:
        if kind:
            put[key] = hits(key) * kind
            cache.put(key, "q", put[key])
        found = cache.get(key)
        assert found is None or found == put[key]
        assert 0 <= cache.stats.held_bytes <= limit
        assert (cache.stats.entries == 0) == (cache.stats.held_bytes == 0)
