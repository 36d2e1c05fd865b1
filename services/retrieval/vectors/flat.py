"""Exhaustive search: full-precision or 8-bit vectors, on the CPU or a GPU."""

from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

import faiss
import numpy as np

from services.retrieval.vectors.base import Neighbors, Progress, RowSelection, Vectors, sample
from services.retrieval.vectors.description import DenseFolder, Description
from services.retrieval.vectors.errors import DeviceUnavailable
from services.retrieval.vectors.faiss_files import (
    INNER_PRODUCT,
    read_index,
    view_codes,
    write_index,
)
from services.retrieval.vectors.files import Bytes, RowFile, chunks, mapped

_CHUNK = 8192
_SAMPLE = 65_536


class PlainBase:
    """Compares a query with every row of ``codes``, memory-mapped."""

    def __init__(self, index: Any, codes: Bytes) -> None:
        self.index = index
        self._codes = codes
        self.held_bytes, self.mapped_bytes = 0, codes.nbytes
        view_codes(index, codes)

    def search(self, queries: Vectors, k: int, selection: RowSelection | None) -> Neighbors:
        """The nearest of all rows, or of the selected ones."""
        if selection is None:
            return Neighbors(*self.index.search(queries, k))
        parameters = faiss.SearchParameters(sel=selection.selector)
        return Neighbors(*self.index.search(queries, k, params=parameters))


def build_flat(folder: DenseFolder, vectors: Vectors, report: Progress) -> Iterable[Path]:
    """Nothing to build: the vectors file is searched directly."""
    del vectors
    report(1.0)
    return [folder.vectors]


def open_flat(folder: DenseFolder, description: Description) -> PlainBase:
    """Open a flat index."""
    dimension = description.dimension
    rows = mapped(folder.vectors, description.rows, 4 * dimension)
    return PlainBase(faiss.IndexFlatIP(dimension), rows)


def build_bytes(folder: DenseFolder, vectors: Vectors, report: Progress) -> Iterable[Path]:
    """Quantize to 8 bits per dimension; resumes an earlier build."""
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
            report(codes.rows / len(vectors))
    finally:
        codes.close()
    return [folder.quantizer, folder.codes]


def open_bytes(folder: DenseFolder, description: Description) -> PlainBase:
    """Open an 8-bit index."""
    quantizer = read_index(folder.quantizer)
    return PlainBase(quantizer, mapped(folder.codes, description.rows, quantizer.code_size))


def checked_device(device: str) -> None:
    """Raises DeviceUnavailable unless vectors can be searched on ``device``: cpu or cuda."""
    if device == "cpu":
        return
    if device != "cuda":
        raise DeviceUnavailable(f"the device {device!r} is neither cpu nor cuda")
    if not hasattr(faiss, "StandardGpuResources"):
        raise DeviceUnavailable(
            f"the installed faiss {faiss.__version__} cannot use a GPU: install a build of it"
            " that can, or search on the device cpu"
        )
    if not faiss.get_num_gpus():
        raise DeviceUnavailable("faiss finds no GPU: search on the device cpu")


class GpuBase:
    """Exhaustive search in the memory of the first GPU, as float16.

    Selective searches go to ``base``: faiss's GPU indexes support no selectors.
    """

    def __init__(self, base: PlainBase) -> None:
        """Raises DeviceUnavailable when the vectors do not fit."""
        options = faiss.GpuClonerOptions()
        options.useFloat16 = True
        self._base = base
        self.held_bytes, self.mapped_bytes = base.held_bytes, base.mapped_bytes
        self._resources = faiss.StandardGpuResources()
        self._one_at_a_time = Lock()
        try:
            self._index = faiss.index_cpu_to_gpu(self._resources, 0, base.index, options)
        except (RuntimeError, MemoryError) as error:
            reason = str(error).strip().splitlines()[-1]
            raise DeviceUnavailable(f"the vectors cannot be put on the GPU: {reason}") from error

    def search(self, queries: Vectors, k: int, selection: RowSelection | None) -> Neighbors:
        """The nearest of all rows, or of the selected."""
        if selection is not None:
            return self._base.search(queries, k, selection)
        with self._one_at_a_time:  # faiss's GPU resources are not thread-safe.
            return Neighbors(*self._index.search(queries, k))
