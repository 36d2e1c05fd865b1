"""What all ways of computing vectors have in common."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Vectorizer(Protocol):
    """A loaded model.

    ``reentrant`` says that several threads may call it at once, each of which then computes on
    one core; otherwise one call takes all the cores there are.
    """

    dimension: int
    device: str
    reentrant: bool

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Normalised vectors of texts that have their prefixes: (texts, dimension)."""
        ...


def normalised(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = vectors / np.maximum(lengths, 1e-12)
    return unit
