"""What every way of storing built vectors has in common."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from services.retrieval.vectors.selection import Selection
from services.retrieval.vectors.vectors import Numbers, Vectors

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
