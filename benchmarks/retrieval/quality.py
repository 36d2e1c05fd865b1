"""Quality measures: recall of approximate search, and nDCG."""

import math
from collections.abc import Collection, Hashable, Iterable, Sequence


def recall(found: Iterable[Hashable], exact: Collection[Hashable], k: int = 10) -> float:
    """The share of the ``k`` best of an exact search that is among the ``k`` first found.

    Both are in order, best first. Of fewer than ``k`` exact ones their number is the measure; where
    there are none, nothing is missed and the recall is 1.
    """
    wanted = set(list(exact)[:k])
    if not wanted:
        return 1.0
    return len(wanted.intersection(list(found)[:k])) / len(wanted)


def ndcg(found: Sequence[Hashable], relevant: Collection[Hashable], k: int = 10) -> float:
    """Normalized discounted cumulative gain at ``k``, every relevant passage gaining 1.

    From 0, none of them is among the ``k`` first, to 1, none stands behind another. A passage that
    is found twice gains once. ``relevant`` must not be empty.
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
    """Their mean; NaN where there are none."""
    collected = list(values)
    return math.fsum(collected) / len(collected) if collected else math.nan


def _discount(rank: int) -> float:
    return 1 / math.log2(rank + 2)
