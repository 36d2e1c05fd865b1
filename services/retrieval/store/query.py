"""Queries, hits, and reciprocal rank fusion (Cormack et al., SIGIR 2009)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from services.contracts.retrieval.indexes import IndexMode
from services.contracts.retrieval.search import Filter


@dataclass(frozen=True, slots=True)
class Fusion:
    """Reciprocal rank fusion: score = sum of 1 / (constant + rank).

    ``depth`` passages of each ranking take part, at least as many as requested.
    """

    constant: int = 60
    depth: int = 100


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A query; ``vector`` is its float32 embedding, for dense and hybrid modes."""

    text: str
    mode: IndexMode
    topk: int
    vector: np.ndarray | None = None
    filter: Filter | None = None
    fusion: Fusion = field(default_factory=Fusion)

    @property
    def is_blank(self) -> bool:
        """Whether the text is blank; blank queries find nothing, though they have an embedding."""
        return not self.text.strip()


@dataclass(frozen=True, slots=True)
class Part:
    """A passage's rank (from 1) and score in one ranking of a hybrid search."""

    mode: IndexMode
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A found passage: number, score, and its stored JSON."""

    number: int
    score: float
    document: bytes
    parts: tuple[Part, ...] = ()

    @property
    def id(self) -> str:
        """The passage's id."""
        return str(json.loads(self.document)["id"])


Ranking = Sequence[tuple[int, float]]
"""(number, score) pairs, best first; numbers are unique."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A passage in a fused ranking."""

    number: int
    score: float
    parts: tuple[Part, ...]


def fuse(rankings: Mapping[IndexMode, Ranking], fusion: Fusion, topk: int) -> list[Fused]:
    """The ``topk`` best passages by reciprocal rank fusion.

    A passage scores the sum of 1 / (constant + rank) over the rankings that contain it. Ties go to
    the best single rank, then to the lowest number.
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
