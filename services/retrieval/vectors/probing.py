"""Vectors as codes in clusters: how they are searched. A search looks into the nearest clusters."""

from math import ceil
from typing import Any

import faiss
import numpy as np

from services.retrieval.vectors.base import Found
from services.retrieval.vectors.plain import PlainBase
from services.retrieval.vectors.selection import Selection
from services.retrieval.vectors.vectors import Vectors

_PROBES = 192
"""Clusters that a search looks into; as they are twice the square root of the rows, these are
more than half of 30,000 vectors and a tenth of a million."""

_CANDIDATES = 200
_LEAST_FACTOR = 4
_PLACE_BYTES, _NUMBER_BYTES = 24, 8


class ClusteredBase:
    """Clusters of mapped codes.

    ``again``, where given, has better codes of the same rows: by them the best by the clusters'
    codes are scored again.
    """

    def __init__(self, index: Any, again: PlainBase | None = None) -> None:
        self._clusters = index.nlist
        self._rows = index.ntotal
        self._again = again
        self._index = index if again is None else faiss.IndexRefine(index, again.index)
        # The centres of the clusters, and where the clusters are.
        self.held_bytes = index.nlist * (4 * index.d + _PLACE_BYTES)
        self.mapped_bytes = index.ntotal * (index.code_size + _NUMBER_BYTES)
        if again is not None:
            self.mapped_bytes += again.mapped_bytes

    def search(self, queries: Vectors, k: int, selection: Selection | None) -> Found:
        """The nearest in the nearest clusters; of all of them where those hold too few."""
        passing = self._rows if selection is None else selection.count
        probes = min(self._clusters, ceil(_PROBES * self._rows / max(passing, 1)))
        found = self._looked_up(queries, k, selection, probes)
        short = found.numbers[:, min(k, passing) - 1] < 0 if passing else np.zeros(0, np.bool_)
        if probes < self._clusters and short.any():
            rest = self._looked_up(queries[short], k, selection, self._clusters)
            found.scores[short], found.numbers[short] = rest
        return found

    def _looked_up(
        self, queries: Vectors, k: int, selection: Selection | None, probes: int
    ) -> Found:
        chosen = {} if selection is None else {"sel": selection.selector}
        parameters = faiss.SearchParametersIVF(nprobe=probes, **chosen)
        if self._again is not None:
            parameters = faiss.IndexRefineSearchParameters(
                k_factor=max(_LEAST_FACTOR, _CANDIDATES / k), base_index_params=parameters
            )
        return Found(*self._index.search(queries, k, params=parameters))
