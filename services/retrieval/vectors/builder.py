"""Builds a vector index in a folder; every step can be killed and resumed."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.encoder.specification import MAX_DIMENSION
from services.retrieval.vectors.base import Progress, Vectors, normalized
from services.retrieval.vectors.description import (
    BuildPlan,
    DenseFolder,
    Description,
    describe,
    read_description,
    read_plan,
    write_plan,
)
from services.retrieval.vectors.errors import DimensionMismatch
from services.retrieval.vectors.files import RowFile, mapped, sync
from services.retrieval.vectors.kinds import build_base, resolved_kind


@dataclass(frozen=True, slots=True)
class DenseParameters:
    """Vector dimension and storage kind; AUTO is resolved when the build finishes."""

    dimension: int
    kind: DenseKind = DenseKind.AUTO

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= MAX_DIMENSION:
            raise ValueError(f"dimension must be from 1 to {MAX_DIMENSION}, not {self.dimension}")


_FLOAT_BYTES = 4


class DenseBuilder:
    """Writes a new vector index: `append` vectors, then `finish`.

    Resumes what an earlier builder left in ``folder``: `rows` is the number of complete vectors. A
    vector's number is its row, from 0.
    """

    def __init__(self, folder: Path, parameters: DenseParameters) -> None:
        """Raises DimensionMismatch when the folder holds vectors of another dimension."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = DenseFolder(folder)
        self._parameters = parameters
        self._finished: Description | None = None
        if self._folder.description.exists():
            self._finished = read_description(self._folder)
            if self._finished.dimension != parameters.dimension:
                raise DimensionMismatch(index=self._finished.dimension, given=parameters.dimension)
        width = _FLOAT_BYTES * parameters.dimension
        self._vectors = None if self._finished else RowFile(self._folder.vectors, width)
        sync(folder)

    @property
    def rows(self) -> int:
        """Complete vectors in the folder. Vectors whose `append` returned survive a power loss;
        after a kill there may be more."""
        if self._finished is not None:
            return self._finished.rows
        return self._written().rows

    @property
    def kind(self) -> DenseKind:
        """The storage kind; resolved from the number of vectors, final once finished."""
        if self._finished is not None:
            return self._finished.kind
        return resolved_kind(self._parameters.kind, self.rows)

    def append(self, vectors: ArrayLike) -> int:
        """Append vectors (n, dimension), normalized to unit length; durable on return. Returns
        `rows`.

        Raises DimensionMismatch, InvalidVector (not finite) or StorageFull (nothing is kept). A
        zero vector stays zero: its cosine with everything is 0.
        """
        rows = normalized(vectors, self._parameters.dimension)
        written = self._written()
        written.append(rows.view(np.uint8))
        return written.rows

    def truncate(self, rows: int) -> None:
        """Drop vectors from row ``rows`` on, to match the text index after a kill."""
        written = self._written()
        if not 0 <= rows <= written.rows:
            raise ValueError(f"there are {written.rows} vectors, not {rows}")
        written.truncate(rows)

    def finish(self, progress: Progress | None = None) -> None:
        """Complete the index for `DenseIndex.open`.

        Memory is bounded regardless of the number of rows, except for HNSW. ``progress`` takes the
        completed fraction; an exception from it aborts the build, which can be resumed. Idempotent.
        Raises StorageFull.
        """
        if self._finished is None:
            making = BuildPlan(kind=self.kind, dimension=self._parameters.dimension, rows=self.rows)
            if read_plan(self._folder) != making:
                self._remove_all_but({self._folder.vectors.name})
                write_plan(self._folder, making)
            files = build_base(making.kind, self._folder, self._all(), progress or _ignore_progress)
            self._finished = describe(
                self._folder, making.kind, making.dimension, making.rows, files
            )
            self.close()
        self._remove_all_but({self._folder.description.name, *self._finished.files})

    def close(self) -> None:
        """Close the files; nothing is lost."""
        if self._vectors is not None:
            self._vectors.close()

    def _written(self) -> RowFile:
        if self._vectors is None or self._finished is not None:
            raise ValueError("the index is finished; use `DenseIndex.add`")
        return self._vectors

    def _all(self) -> Vectors:
        width = _FLOAT_BYTES * self._parameters.dimension
        return mapped(self._folder.vectors, self.rows, width).view(np.float32)

    def _remove_all_but(self, names: set[str]) -> None:
        """Keeps the log of additions, which only exists once the index is finished."""
        kept = {*names, self._folder.added.name}
        for path in self._folder.path.iterdir():
            if path.name not in kept:
                path.unlink()

    def __enter__(self) -> "DenseBuilder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ignore_progress(part: float) -> None:
    """Default progress callback."""
    del part
