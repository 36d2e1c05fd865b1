"""Types shared by all vector index kinds, normalization, sampling and selection."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import faiss
import numpy as np
from numpy.typing import ArrayLike, NDArray

from services.retrieval.vectors.errors import DimensionMismatch, InvalidVector

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]


def normalized(vectors: ArrayLike, dimension: int) -> Vectors:
    """A unit-length (L2) copy of ``vectors`` (n, dimension); zero vectors stay zero.

    Raises DimensionMismatch, or InvalidVector naming the row.
    """
    given = np.asarray(vectors, dtype=np.float32)
    if given.ndim != 2:
        raise InvalidVector(
            f"vectors must be a 2-dimensional array, not one of {given.ndim} dimensions"
        )
    if given.shape[1] != dimension:
        raise DimensionMismatch(index=dimension, given=given.shape[1])
    # In double precision, where squares of float32 cannot overflow.
    lengths = np.sqrt(np.einsum("ij,ij->i", given, given, dtype=np.float64))
    if not np.isfinite(lengths).all():
        row = int(np.argmin(np.isfinite(lengths)))
        raise InvalidVector(f"vector {row} is not finite: the encoder failed")
    lengths[lengths == 0] = 1
    return np.ascontiguousarray(given / lengths[:, None], dtype=np.float32)


_SEED = 20_240_917
_GATHERED = 4096


def sample(vectors: Vectors, count: int) -> Vectors:
    """A deterministic sample of ``count`` vectors, or all of them if fewer."""
    if len(vectors) <= count:
        return np.ascontiguousarray(vectors)
    random = np.random.default_rng(_SEED)
    # One row from each of ``count`` equal stretches: sequential reads, no permutation in memory.
    edges = np.linspace(0, len(vectors), count + 1).astype(np.int64)
    rows = random.integers(edges[:-1], edges[1:])
    taken = np.empty((count, vectors.shape[1]), dtype=np.float32)
    for start in range(0, count, _GATHERED):
        part = slice(start, start + _GATHERED)
        taken[part] = vectors[rows[part]]
    return taken


@dataclass(frozen=True)
class RowSelection:
    """The rows a search may return: ``count`` rows that pass ``selector``."""

    selector: Any
    count: int


def select(allowed: Numbers | None, excluded: Numbers | None, rows: int) -> RowSelection | None:
    """The rows below ``rows`` that are allowed and not excluded; None for all of them."""
    if allowed is None and (excluded is None or not len(excluded)):
        return None
    if allowed is None:
        passed = np.ones(rows, dtype=np.bool_)
    else:
        passed = np.zeros(rows, dtype=np.bool_)
        passed[_below(allowed, rows)] = True
    if excluded is not None:
        passed[_below(excluded, rows)] = False
    count = int(np.count_nonzero(passed))
    if count == rows:
        return None
    return RowSelection(faiss.IDSelectorBitmap(np.packbits(passed, bitorder="little")), count)


def mask(
    numbers: Numbers, allowed: Numbers | None, excluded: Numbers | None
) -> NDArray[np.bool_] | None:
    """Boolean mask of ``numbers`` allowed and not excluded; None for all of them."""
    if allowed is None and (excluded is None or not len(excluded)):
        return None
    passed = np.ones(len(numbers), dtype=np.bool_)
    if allowed is not None:
        passed &= np.isin(numbers, allowed)
    if excluded is not None:
        passed &= ~np.isin(numbers, excluded)
    return passed


def _below(numbers: Numbers, rows: int) -> Numbers:
    return numbers[(numbers >= 0) & (numbers < rows)]


Progress = Callable[[float], None]
"""Takes the completed fraction of a build, 0 to 1; may raise to abort it."""


class Neighbors(NamedTuple):
    """The nearest vectors of each query, best first.

    ``scores`` (n, k) are cosine similarities; ``numbers`` (n, k) identify passages, -1 where there
    are fewer than k.
    """

    scores: NDArray[np.float32]
    numbers: Numbers


class Base(Protocol):
    """A built vector index; thread-safe.

    ``held_bytes`` is private memory per process, ``mapped_bytes`` the size of shared mapped files.
    """

    held_bytes: int
    mapped_bytes: int

    def search(self, queries: Vectors, k: int, selection: RowSelection | None) -> Neighbors:
        """The ``k`` nearest rows to each of ``queries`` (n, dimension), which have unit length."""
