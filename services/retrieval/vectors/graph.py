"""Vectors as bytes in a graph of neighbours: the quickest for one query, and the greatest."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from services.retrieval.vectors.base import Found, Progress, Selection, Vectors, sample
from services.retrieval.vectors.description import DenseFolder, Description
from services.retrieval.vectors.faiss_files import INNER_PRODUCT, read_mapped_graph, write_index
from services.retrieval.vectors.files import chunks

_NEIGHBOURS = 32
_LOOKED_AT_WHEN_BUILT = 200
_LOOKED_AT = 128
_CHUNK = 4096
_SAMPLE = 65_536

_SPARSE = 0.1
"""Where fewer than this part of the rows are selected, a walk through the graph meets too few."""


class GraphBase:
    """A graph that a search walks through, its files mapped."""

    def __init__(self, index: Any, mapped_bytes: int) -> None:
        self._index = index
        self._bytes = faiss.downcast_index(index.storage)
        # The level of each row, and where its neighbours are.
        self.held_bytes, self.mapped_bytes = 12 * index.ntotal, mapped_bytes

    def search(self, queries: Vectors, k: int, selection: Selection | None) -> Found:
        """The nearest rows that the walk meets; where few are selected, of all that are."""
        if selection is not None and selection.count < max(_SPARSE * self._index.ntotal, k):
            parameters = faiss.SearchParameters(sel=selection.selector)
            return Found(*self._bytes.search(queries, k, params=parameters))
        looked_at = max(_LOOKED_AT, 2 * k)
        if selection is not None:
            looked_at = int(looked_at * self._index.ntotal / selection.count)
            parameters = faiss.SearchParametersHNSW(efSearch=looked_at, sel=selection.selector)
        else:
            parameters = faiss.SearchParametersHNSW(efSearch=looked_at)
        return Found(*self._index.search(queries, k, params=parameters))


def build_graph(folder: DenseFolder, vectors: Vectors, tell: Progress) -> Iterable[Path]:
    """Make the graph. It is held in memory until it is whole, and begun again after a kill."""
    index = faiss.IndexHNSWSQ(
        vectors.shape[1], faiss.ScalarQuantizer.QT_8bit, _NEIGHBOURS, INNER_PRODUCT
    )
    index.hnsw.efConstruction = _LOOKED_AT_WHEN_BUILT
    index.train(sample(vectors, _SAMPLE))
    for rows in chunks(0, len(vectors), _CHUNK):
        index.add(np.ascontiguousarray(vectors[rows]))
        tell(rows.stop / len(vectors))
    write_index(index, folder.base)
    return [folder.base]


def open_graph(folder: DenseFolder, description: Description) -> GraphBase:
    """Search the graph where it is."""
    return GraphBase(read_mapped_graph(folder.base), description.files[folder.base.name].size)
