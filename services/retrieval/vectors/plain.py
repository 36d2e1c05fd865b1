"""Vectors that are compared one by one: in full, or as a byte a dimension."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from services.retrieval.vectors.base import Found, Progress
from services.retrieval.vectors.description import DenseFolder, Description
from services.retrieval.vectors.library import INNER_PRODUCT, lay_over, read_index, write_index
from services.retrieval.vectors.rows import Bytes, RowFile, chunks, mapped
from services.retrieval.vectors.selection import Selection
from services.retrieval.vectors.training import sample
from services.retrieval.vectors.vectors import Vectors

_CHUNK = 8192
_SAMPLE = 65_536


class PlainBase:
    """An index that compares a query with every row of ``codes``, which it reads in place."""

    def __init__(self, index: Any, codes: Bytes) -> None:
        self.index = index
        self._codes = codes
        self.held_bytes, self.mapped_bytes = 0, codes.nbytes
        lay_over(index, codes)

    def search(self, queries: Vectors, k: int, selection: Selection | None) -> Found:
        """The nearest of all rows, or of the selected."""
        if selection is None:
            return Found(*self.index.search(queries, k))
        parameters = faiss.SearchParameters(sel=selection.selector)
        return Found(*self.index.search(queries, k, params=parameters))


def build_flat(folder: DenseFolder, vectors: Vectors, tell: Progress) -> Iterable[Path]:
    """The vectors are what is searched: nothing is to be made of them."""
    del vectors
    tell(1.0)
    return [folder.vectors]


def open_flat(folder: DenseFolder, description: Description) -> PlainBase:
    """Search the vectors themselves."""
    dimension = description.dimension
    rows = mapped(folder.vectors, description.rows, 4 * dimension)
    return PlainBase(faiss.IndexFlatIP(dimension), rows)


def build_bytes(folder: DenseFolder, vectors: Vectors, tell: Progress) -> Iterable[Path]:
    """Make bytes of the vectors; goes on where an earlier build was ended."""
    if not folder.quantizer.exists():
        trained = faiss.IndexScalarQuantizer(
            vectors.shape[1], faiss.ScalarQuantizer.QT_8bit, INNER_PRODUCT
        )
        trained.train(sample(vectors, _SAMPLE))
        write_index(trained, folder.quantizer)
    quantizer = read_index(folder.quantizer)
    codes = RowFile(folder.codes, quantizer.code_size)
    try:
        for rows in chunks(codes.rows, len(vectors), _CHUNK):
            codes.append(quantizer.sa_encode(np.ascontiguousarray(vectors[rows])))
            tell(codes.rows / len(vectors))
    finally:
        codes.close()
    return [folder.quantizer, folder.codes]


def open_bytes(folder: DenseFolder, description: Description) -> PlainBase:
    """Search the bytes."""
    quantizer = read_index(folder.quantizer)
    return PlainBase(quantizer, mapped(folder.codes, description.rows, quantizer.code_size))
