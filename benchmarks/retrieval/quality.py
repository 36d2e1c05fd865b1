"""Quality measures: recall of approximate search, and nDCG."""

import math
from collections.abc import Collection, Hashable, Iterable, Sequence


def recall(found: Iterable[Hashable], exact: Collection[Hashable], k: int = 10) -> float:
    """Return the share of an exact search's ``k`` best results that are among the ``k`` first
    found.

    Both lists are ordered, best first. If the exact search found fewer than ``k``, their number is
    the denominator; if it found none, the recall is 1.
    """
    wanted = set(list(exact)[:k])
    if not wanted:
        return 1.0
    return len(wanted.intersection(list(found)[:k])) / len(wanted)


def ndcg(found: Sequence[Hashable], relevant: Collection[Hashable], k: int = 10) -> float:
    """Return normalized discounted cumulative gain at ``k``, with gain 1 for every relevant
    passage.

    0 means that none is among the ``k`` first, 1 that all are ranked first. A duplicate gains once.
    ``relevant`` must not be empty.
    """
    if not relevant:
        raise ValueError("no passage is relevant")
    left = set(relevant)
    gain = 0.0
    for rank, passage in enumerate(found[:k]):
        if passage in left:
            left.remove(passage)
            gain += _discount(rank)
    return gain / sum(_discount(rank) for rank in range(min(k, len(set(relevant)))))


def mean(values: Iterable[float]) -> float:
    """Return the mean; NaN for no values."""
    collected = list(values)
    return math.fsum(collected) / len(collected) if collected else math.nan


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 2)
