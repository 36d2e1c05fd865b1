"""Vectors as they come and as they are kept: of length one, so that products are cosines."""

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
