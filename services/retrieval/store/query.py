"""What an index is asked, and what it answers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from services.contracts.indexes import IndexMode
from services.contracts.retrieval import Filter


@dataclass(frozen=True, slots=True)
class Fusion:
    """How the two rankings of a hybrid search become one: by the sum of 1 / (constant + rank).

    ``depth`` passages of each ranking take part, at least as many as are asked for.
    """

    constant: int = 60
    depth: int = 100


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One query. ``vector`` is its embedding, float32, for the modes dense and hybrid."""

    text: str
    mode: IndexMode
    topk: int
    vector: np.ndarray | None = None
    filter: Filter | None = None
    fusion: Fusion = field(default_factory=Fusion)

    @property
    def is_blank(self) -> bool:
        """Whether it asks for nothing, and finds nothing, though an encoder has a vector for it."""
        return not self.text.strip()


@dataclass(frozen=True, slots=True)
class Part:
    """Where one of the rankings of a hybrid search had a passage; ranks begin at 1."""

    mode: IndexMode
    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found: its number, its JSON as it was stored, and how well it fits."""

    number: int
    score: float
    document: bytes
    parts: tuple[Part, ...] = ()

    @property
    def id(self) -> str:
        """The passage's id."""
        return str(json.loads(self.document)["id"])


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
