"""The vectors that clusters and codes are learnt from."""

import numpy as np

from services.retrieval.vectors.vectors import Vectors

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
