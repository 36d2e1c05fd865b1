"""A vector index: built vectors plus additions."""

import os
from pathlib import Path
from threading import Lock

import faiss
import numpy as np
from numpy.typing import ArrayLike

from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.vectors.additions import AddedLog, Table
from services.retrieval.vectors.base import Base, Neighbors, Numbers, normalized, select
from services.retrieval.vectors.description import DenseFolder, Description, read_description
from services.retrieval.vectors.flat import checked_device
from services.retrieval.vectors.kinds import open_base


class DenseIndex:
    """Memory-mapped built vectors, and those added since.

    Searching is thread-safe and releases the GIL. One process at a time may add (callers hold a
    lock); others see additions after `refresh`.
    """

    def __init__(
        self, folder: DenseFolder, description: Description, base: Base, threads: int
    ) -> None:
        self._description = description
        self._base: Base | None = base
        self._threads = threads
        self._log = AddedLog(folder.added, description.dimension)
        self._table = Table.empty(description.dimension)
        self._changing = Lock()
        self.refresh()

    @classmethod
    def open(cls, folder: Path, *, device: str = "cpu", threads: int | None = None) -> "DenseIndex":
        """Open a finished index; ``threads`` is the search parallelism (None: one per core).

        Raises VectorsUnusable naming the file, or DeviceUnavailable.
        """
        checked_device(device)
        files = DenseFolder(folder)
        description = read_description(files)
        base = open_base(files, description, device)
        return cls(files, description, base, threads or len(os.sched_getaffinity(0)))

    @property
    def kind(self) -> DenseKind:
        """How the vectors are stored; never AUTO."""
        return self._description.kind

    @property
    def dimension(self) -> int:
        """Vector dimension."""
        return self._description.dimension

    @property
    def count(self) -> int:
        """All vectors, including those of replaced and deleted passages."""
        return self._description.rows + self.added

    @property
    def added(self) -> int:
        """Vectors added after the build; searched exhaustively."""
        return len(self._table.numbers)

    @property
    def held_bytes(self) -> int:
        """Private memory per process."""
        base = 0 if self._base is None else self._base.held_bytes
        return base + self._table.numbers.nbytes + self._table.vectors.nbytes

    @property
    def memory_bytes(self) -> int:
        """Upper bound of what searching touches: private memory and shared mapped files."""
        return self.held_bytes + (0 if self._base is None else self._base.mapped_bytes)

    def search(
        self,
        vectors: ArrayLike,
        k: int,
        *,
        allowed: Numbers | None = None,
        excluded: Numbers | None = None,
    ) -> Neighbors:
        """The ``k`` nearest of each of ``vectors`` (n, dimension), by cosine similarity.

        Only ``allowed`` numbers, if given, and never ``excluded`` ones; as many as exist, however
        few are allowed. Raises DimensionMismatch or InvalidVector.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}")
        queries = normalized(vectors, self.dimension)
        base, table = self._base, self._table
        if base is None:
            raise ValueError("the index is closed")
        # OpenMP's setting is per calling thread; more threads than queries are useless.
        faiss.omp_set_num_threads(min(self._threads, len(queries)) or 1)
        selection = select(allowed, excluded, self._description.rows)
        found = base.search(queries, k, selection)
        if not len(table.numbers):
            return found
        return _merged(found, table.search(queries, k, allowed, excluded), k)

    def add(self, numbers: Numbers, vectors: ArrayLike) -> None:
        """Add vectors under new ``numbers``; durable and searchable on return.

        Adding a number again replaces its vector. Raises DimensionMismatch, InvalidVector, or
        StorageFull (nothing is kept).
        """
        rows = Table(np.asarray(numbers, dtype=np.int64), normalized(vectors, self.dimension))
        if len(rows.numbers) != len(rows.vectors) or len(np.unique(rows.numbers)) != len(
            rows.vectors
        ):
            raise ValueError("each vector needs a distinct number")
        if not len(rows.numbers):
            return
        if rows.numbers.min() < self._description.rows:
            raise ValueError(f"numbers below {self._description.rows} belong to the build")
        with self._changing:
            self._merge(self._log.read())
            self._log.append(rows)
            self._merge([rows])

    def refresh(self) -> bool:
        """Load what other processes have added; whether there was anything."""
        with self._changing:
            records = self._log.read()
            self._merge(records)
        return bool(records)

    def close(self) -> None:
        """Release files and memory once running searches finish."""
        self._base = None
        self._table = Table.empty(self.dimension)

    def _merge(self, records: list[Table]) -> None:
        if records:
            self._table = self._table.concatenated(records)


def _merged(one: Neighbors, other: Neighbors, k: int) -> Neighbors:
    """The best ``k`` of both."""
    scores = np.concatenate([one.scores, other.scores], axis=1)
    numbers = np.concatenate([one.numbers, other.numbers], axis=1)
    best = np.argsort(-np.where(numbers < 0, -np.inf, scores), axis=1, kind="stable")[:, :k]
    return Neighbors(
        np.take_along_axis(scores, best, axis=1), np.take_along_axis(numbers, best, axis=1)
    )
