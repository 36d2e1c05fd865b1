"""IVF indexes: quantized vectors in inverted lists, built in bounded memory and resumable."""

from collections.abc import Iterable
from math import ceil, sqrt
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from services.retrieval.vectors.base import Neighbors, Progress, RowSelection, Vectors, sample
from services.retrieval.vectors.description import DenseFolder
from services.retrieval.vectors.faiss_files import (
    INNER_PRODUCT,
    read_block,
    read_index,
    write_index,
    write_lists,
)
from services.retrieval.vectors.files import chunks
from services.retrieval.vectors.flat import PlainBase

BLOCK_BYTES = 96 << 20
"""Bytes of codes per block held in memory while building."""

_CHUNK = 8192
_ROUNDS = 10
_SAMPLES_A_CLUSTER = 40
_MAX_SAMPLES = 262_144
_MAX_CLUSTERS = 8192
_MIN_CLUSTER_SIZE = 100
"""Average list size: the centroids then take at most a hundredth of the vectors' space."""

_TRAINED, _FILLED = 0.25, 0.95
"""Progress once the centroids are trained, and once all vectors are in blocks."""


def build_clusters(
    folder: DenseFolder, vectors: Vectors, codes: str, report: Progress
) -> Iterable[Path]:
    """Build an IVF index over ``vectors`` with faiss's factory name ``codes`` for the quantizer."""
    if not folder.trained.exists():
        write_index(_trained(vectors, codes), folder.trained)
    report(_TRAINED)
    into = read_index(folder.trained)
    length = max(_CHUNK, BLOCK_BYTES // (into.code_size + 8))
    blocks = []
    for number, rows in enumerate(chunks(0, len(vectors), length)):
        path = folder.block(number)
        if not path.exists():
            write_index(_filled(read_index(folder.trained), vectors, rows, report), path)
        blocks.append(path)
    write_lists([read_block(path) for path in blocks], folder.lists, into)
    write_index(into, folder.base)
    report(1.0)
    return [folder.base, folder.lists]


def _trained(vectors: Vectors, codes: str) -> Any:
    rows, dimension = vectors.shape
    clusters = min(round(2 * sqrt(rows)), rows // _MIN_CLUSTER_SIZE, _MAX_CLUSTERS)
    index = faiss.index_factory(dimension, f"IVF{clusters},{codes}", INNER_PRODUCT)
    index.cp.niter = _ROUNDS
    index.cp.max_points_per_centroid = _SAMPLES_A_CLUSTER
    # Silence faiss's warning about few training points.
    index.cp.min_points_per_centroid = 1
    if isinstance(index, faiss.IndexIVFPQ):
        index.pq.cp.min_points_per_centroid = 1
        index.pq.cp.niter = _ROUNDS
        # Only used for Hamming-distance search, and the slowest part of training.
        index.do_polysemous_training = False
    index.train(sample(vectors, min(_SAMPLES_A_CLUSTER * clusters, _MAX_SAMPLES)))
    return index


def _filled(index: Any, vectors: Vectors, rows: slice, report: Progress) -> Any:
    for part in chunks(rows.start, rows.stop, _CHUNK):
        numbers = np.arange(part.start, part.stop, dtype=np.int64)
        index.add_with_ids(np.ascontiguousarray(vectors[part]), numbers)
        report(_TRAINED + (_FILLED - _TRAINED) * part.stop / len(vectors))
    return index


_PROBES = 384
"""nprobe: all lists of up to 37,000 vectors, three quarters of 60,000's, a fifth of a million's.
Neighbors of short queries are spread over many lists: in half of them recall@10 is 0.97 (MiniLM,
26,000 passages, queries of 4 to 8 words), in three quarters 0.987, in all 0.990."""

_CANDIDATES = 200
_MIN_FACTOR = 4
_PLACE_BYTES, _NUMBER_BYTES = 24, 8


class ClusteredBase:
    """An IVF index over memory-mapped lists.

    ``again``, if given, holds more precise codes of the same rows for refining the best candidates.
    """

    def __init__(self, index: Any, again: PlainBase | None = None) -> None:
        self._clusters = index.nlist
        self._rows = index.ntotal
        self._again = again
        self._index = index if again is None else faiss.IndexRefine(index, again.index)
        # Centroids and the list directory.
        self.held_bytes = index.nlist * (4 * index.d + _PLACE_BYTES)
        self.mapped_bytes = index.ntotal * (index.code_size + _NUMBER_BYTES)
        if again is not None:
            self.mapped_bytes += again.mapped_bytes

    def search(self, queries: Vectors, k: int, selection: RowSelection | None) -> Neighbors:
        """The nearest in the nearest lists; in all lists when those hold fewer than ``k``."""
        passing = self._rows if selection is None else selection.count
        probes = min(self._clusters, ceil(_PROBES * self._rows / max(passing, 1)))
        found = self._search_lists(queries, k, selection, probes)
        short = found.numbers[:, min(k, passing) - 1] < 0 if passing else np.zeros(0, np.bool_)
        if probes < self._clusters and short.any():
            rest = self._search_lists(queries[short], k, selection, self._clusters)
            found.scores[short], found.numbers[short] = rest
        return found

    def _search_lists(
        self, queries: Vectors, k: int, selection: RowSelection | None, probes: int
    ) -> Neighbors:
        chosen = {} if selection is None else {"sel": selection.selector}
        parameters = faiss.SearchParametersIVF(nprobe=probes, **chosen)
        if self._again is not None:
            parameters = faiss.IndexRefineSearchParameters(
                k_factor=max(_MIN_FACTOR, _CANDIDATES / k), base_index_params=parameters
            )
        return Neighbors(*self._index.search(queries, k, params=parameters))
