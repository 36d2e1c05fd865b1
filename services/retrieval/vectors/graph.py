"""HNSW over 8-bit vectors: lowest latency for single queries, largest on disk."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from services.retrieval.vectors.base import Neighbors, Progress, RowSelection, Vectors, sample
from services.retrieval.vectors.description import DenseFolder, Description
from services.retrieval.vectors.faiss_files import INNER_PRODUCT, read_mapped_graph, write_index
from services.retrieval.vectors.files import chunks

_M = 32
_EF_CONSTRUCTION = 200
_EF_SEARCH = 128
_CHUNK = 4096
_SAMPLE = 65_536

_SPARSE = 0.1
"""Below this selected fraction a graph walk meets too few rows, and all of them are compared."""


class GraphBase:
    """An HNSW index over memory-mapped files."""

    def __init__(self, index: Any, mapped_bytes: int) -> None:
        self._index = index
        self._bytes = faiss.downcast_index(index.storage)
        # The level and neighbor offset of each row.
        self.held_bytes, self.mapped_bytes = 12 * index.ntotal, mapped_bytes

    def search(self, queries: Vectors, k: int, selection: RowSelection | None) -> Neighbors:
        """Graph search; exhaustive over the selection when that is small."""
        if selection is not None and selection.count < max(_SPARSE * self._index.ntotal, k):
            parameters = faiss.SearchParameters(sel=selection.selector)
            return Neighbors(*self._bytes.search(queries, k, params=parameters))
        ef_search = max(_EF_SEARCH, 2 * k)
        if selection is not None:
            ef_search = int(ef_search * self._index.ntotal / selection.count)
            parameters = faiss.SearchParametersHNSW(efSearch=ef_search, sel=selection.selector)
        else:
            parameters = faiss.SearchParametersHNSW(efSearch=ef_search)
        return Neighbors(*self._index.search(queries, k, params=parameters))


def build_graph(folder: DenseFolder, vectors: Vectors, report: Progress) -> Iterable[Path]:
    """Build the graph in memory; restarts from scratch after a kill."""
    index = faiss.IndexHNSWSQ(vectors.shape[1], faiss.ScalarQuantizer.QT_8bit, _M, INNER_PRODUCT)
    index.hnsw.efConstruction = _EF_CONSTRUCTION
    index.train(sample(vectors, _SAMPLE))
    for rows in chunks(0, len(vectors), _CHUNK):
        index.add(np.ascontiguousarray(vectors[rows]))
        report(rows.stop / len(vectors))
    write_index(index, folder.base)
    return [folder.base]


def open_graph(folder: DenseFolder, description: Description) -> GraphBase:
    """Open the memory-mapped graph."""
    return GraphBase(read_mapped_graph(folder.base), description.files[folder.base.name].size)
