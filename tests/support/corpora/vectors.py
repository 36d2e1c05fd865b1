"""Synthetic vectors distributed like an encoder's: in clusters of low dimension."""

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

DIMENSION = 384
CLUSTERS, FACTORS = 2000, 48
CHUNK = 8192
"""Vectors that are drawn together; a chunk depends on its number alone."""

Vectors = NDArray[np.float32]


def vectors(count: int) -> Iterator[Vectors]:
    """So many normalized vectors in chunks of (n, 384)."""
    for chunk, start in enumerate(range(0, count, CHUNK)):
        yield _drawn(chunk, min(CHUNK, count - start))


def questions(count: int) -> Vectors:
    """Other vectors of the same kind, (count, 384)."""
    return _drawn(2**31, count)


def nearest(asked: Vectors, count: int, k: int = 10) -> NDArray[np.int64]:
    """The numbers of the ``k`` of ``count`` vectors with the greatest cosines, best first."""
    best = np.full((len(asked), k), -np.inf, dtype=np.float32)
    numbers = np.full((len(asked), k), -1, dtype=np.int64)
    start = 0
    for chunk in vectors(count):
        scores = np.hstack([best, asked @ chunk.T])
        candidates = np.arange(start, start + len(chunk), dtype=np.int64)
        known = np.hstack([numbers, np.broadcast_to(candidates, (len(asked), len(chunk)))])
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        best = np.take_along_axis(scores, order, axis=1)
        numbers = np.take_along_axis(known, order, axis=1)
        start += len(chunk)
    return numbers


def _drawn(chunk: int, count: int) -> Vectors:
    random = np.random.default_rng([384, chunk])
    centers, axes = _space()
    cluster = random.integers(0, CLUSTERS, count)
    within = random.standard_normal((count, FACTORS), dtype=np.float32) @ axes
    noise = random.standard_normal((count, DIMENSION), dtype=np.float32)
    return _normalized(centers[cluster] + 0.8 * within + 0.25 * noise)


@cache
def _space() -> tuple[Vectors, Vectors]:
    """Centers of the clusters, and the directions along which vectors of one differ."""
    random = np.random.default_rng(384)
    axes = random.standard_normal((FACTORS, DIMENSION), dtype=np.float32) / np.sqrt(FACTORS)
    directions = random.standard_normal((2 * FACTORS, DIMENSION), dtype=np.float32)
    places = random.standard_normal((CLUSTERS, 2 * FACTORS), dtype=np.float32)
    return places @ directions / np.float32(np.sqrt(2 * FACTORS)), axes


def _normalized(rows: Vectors) -> Vectors:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)
