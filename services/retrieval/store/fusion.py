"""Reciprocal-rank fusion: one ranking from several, by ranks alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.contracts.indexes import IndexMode
from services.retrieval.store.query import Fusion, Part

Ranking = Sequence[tuple[int, float]]
"""Passages' numbers and scores, best first; no number twice."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A passage of a fused ranking."""

    number: int
    score: float
    parts: tuple[Part, ...]


def fuse(rankings: Mapping[IndexMode, Ranking], fusion: Fusion, topk: int) -> list[Fused]:
    """The ``topk`` best passages of the rankings together.

    A passage scores the sum of 1 / (constant + rank) over the rankings that have it. Of equals
    the one with the best single rank comes first, then the one with the lowest number.
    """
    parts: dict[int, list[Part]] = {}
    for mode, ranking in rankings.items():
        for rank, (number, score) in enumerate(ranking, start=1):
            parts.setdefault(number, []).append(Part(mode, rank, score))
    fused = [
        Fused(number, sum(1.0 / (fusion.constant + part.rank) for part in found), tuple(found))
        for number, found in parts.items()
    ]
    fused.sort(key=lambda one: (-one.score, min(part.rank for part in one.parts), one.number))
    return fused[:topk]
