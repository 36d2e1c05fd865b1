"""What every way of storing built vectors has in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import faiss
import numpy as np
from numpy.typing import ArrayLike, NDArray

from services.retrieval.vectors.errors import DimensionMismatch, InvalidVector

Vectors = NDArray[np.float32]
Numbers = NDArray[np.int64]


def normalised(vectors: ArrayLike, dimension: int) -> Vectors:
    """A copy of ``vectors`` (n, dimension) with length one each; zeros stay zeros.

    Raises DimensionMismatch, or InvalidVector, which names the row.
    """
    given = np.asarray(vectors, dtype=np.float32)
    if given.ndim != 2:
        raise InvalidVector(f"vectors come as rows of a table, not with {given.ndim} dimensions")
    if given.shape[1] != dimension:
        raise DimensionMismatch(index=dimension, given=given.shape[1])
    # In double precision, where the squares of no float32 overflow.
    lengths = np.sqrt(np.einsum("ij,ij->i", given, given, dtype=np.float64))
    if not np.isfinite(lengths).all():
        row = int(np.argmin(np.isfinite(lengths)))
        raise InvalidVector(f"vector {row} is not finite: its encoder has failed")
    lengths[lengths == 0] = 1
    return np.ascontiguousarray(given / lengths[:, None], dtype=np.float32)


_SEED = 20_240_917
_GATHERED = 4096


def sample(vectors: Vectors, count: int) -> Vectors:
    """``count`` of the vectors, or all where there are fewer; the same ones each time."""
    if len(vectors) <= count:
        return np.ascontiguousarray(vectors)
    random = np.random.default_rng(_SEED)
    # One of each of so many stretches: in the order of the file, and no list of all rows is made.
    edges = np.linspace(0, len(vectors), count + 1).astype(np.int64)
    rows = random.integers(edges[:-1], edges[1:])
    taken = np.empty((count, vectors.shape[1]), dtype=np.float32)
    for start in range(0, count, _GATHERED):
        part = slice(start, start + _GATHERED)
        taken[part] = vectors[rows[part]]
    return taken


@dataclass(frozen=True)
class Selection:
    """The rows of a base that may be found: ``count`` of them, those that ``selector`` passes."""

    selector: Any
    count: int


def select(allowed: Numbers | None, excluded: Numbers | None, rows: int) -> Selection | None:
    """The rows below ``rows`` that are allowed and not excluded; None when all are."""
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
    return Selection(faiss.IDSelectorBitmap(np.packbits(passed, bitorder="little")), count)


def mask(
    numbers: Numbers, allowed: Numbers | None, excluded: Numbers | None
) -> NDArray[np.bool_] | None:
    """Which of ``numbers`` are allowed and not excluded; None when all are."""
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
"""Told the part of a build that is done, from 0 to 1; may end it by raising."""


class Found(NamedTuple):
    """The nearest vectors of each query, the best first.

    ``scores`` (n, k) are cosines; ``numbers`` (n, k) are the documents', -1 where there are fewer
    than k.
    """

    scores: NDArray[np.float32]
    numbers: Numbers


class Base(Protocol):
    """The vectors that an index was built with, searchable by any number of threads at once.

    ``held_bytes`` are what each process has for itself, ``mapped_bytes`` the files that it shares
    with others.
    """

    held_bytes: int
    mapped_bytes: int

    def search(self, queries: Vectors, k: int, selection: Selection | None) -> Found:
        """The ``k`` nearest rows to each of ``queries`` (n, dimension), which are normalised."""
