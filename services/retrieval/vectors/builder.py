"""Builds an index of vectors in a folder; every step can be killed and taken up again."""

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike

from services.contracts.indexes import DenseKind
from services.retrieval.vectors.base import Progress, Vectors, normalised
from services.retrieval.vectors.description import (
    DenseFolder,
    Description,
    Making,
    describe,
    keep_making,
    read_description,
    read_making,
)
from services.retrieval.vectors.errors import DimensionMismatch
from services.retrieval.vectors.files import RowFile, mapped, sync
from services.retrieval.vectors.kinds import build_base, settled

MAX_DIMENSION = 8192


@dataclass(frozen=True, slots=True)
class DenseParameters:
    """Length of the vectors, and how they are stored; AUTO is settled when the build finishes."""

    dimension: int
    kind: DenseKind = DenseKind.AUTO

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= MAX_DIMENSION:
            raise ValueError(f"dimension must be from 1 to {MAX_DIMENSION}, not {self.dimension}")


_FLOAT_BYTES = 4


class DenseBuilder:
    """The writer of a new index: vectors are appended, then `finish` makes them searchable.

    ``folder`` is made where it is missing. What an earlier builder left in it is gone on with:
    `rows` tells how many whole vectors are there. The number of a vector is its row, from 0.
    """

    def __init__(self, folder: Path, parameters: DenseParameters) -> None:
        """Raises DimensionMismatch when vectors of another length are in the folder already."""
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
        """How many whole vectors are there. Those that `append` has returned for survive a loss of
        power; after a kill, some that it had not returned for may be there as well."""
        if self._finished is not None:
            return self._finished.rows
        return self._written().rows

    @property
    def kind(self) -> DenseKind:
        """How the vectors are stored: settled by their number, for good when finished."""
        if self._finished is not None:
            return self._finished.kind
        return settled(self._parameters.kind, self.rows)

    def append(self, vectors: ArrayLike) -> int:
        """Adds vectors (n, dimension), normalised here; durable on return. Gives the new `rows`.

        Raises DimensionMismatch, InvalidVector (not finite), StorageFull (nothing is kept).
        A vector of zeros stays one: its cosine with everything is 0.
        """
        rows = normalised(vectors, self._parameters.dimension)
        written = self._written()
        written.append(rows.view(np.uint8))
        return written.rows

    def truncate(self, rows: int) -> None:
        """Drops the vectors from row ``rows`` on, so that text and vectors agree after a kill."""
        written = self._written()
        if not 0 <= rows <= written.rows:
            raise ValueError(f"there are {written.rows} vectors, not {rows}")
        written.truncate(rows)

    def finish(self, progress: Progress | None = None) -> None:
        """Makes the index complete: `DenseIndex.open` takes it from here.

        Memory is bounded whatever the number of rows, but for a graph. ``progress`` is called with
        the part done, 0 to 1; what it raises ends the build, which can be taken up again. Once
        finished, calling it again does nothing. Raises StorageFull.
        """
        if self._finished is None:
            making = Making(kind=self.kind, dimension=self._parameters.dimension, rows=self.rows)
            if read_making(self._folder) != making:
                self._remove_all_but({self._folder.vectors.name})
                keep_making(self._folder, making)
            files = build_base(making.kind, self._folder, self._all(), progress or _nobody)
            self._finished = describe(
                self._folder, making.kind, making.dimension, making.rows, files
            )
            self.close()
        self._remove_all_but({self._folder.description.name, *self._finished.files})

    def close(self) -> None:
        """Gives the files back; nothing is lost."""
        if self._vectors is not None:
            self._vectors.close()

    def _written(self) -> RowFile:
        if self._vectors is None or self._finished is not None:
            raise ValueError("the index is finished; `DenseIndex.add` adds to it")
        return self._vectors

    def _all(self) -> Vectors:
        width = _FLOAT_BYTES * self._parameters.dimension
        return mapped(self._folder.vectors, self.rows, width).view(np.float32)

    def _remove_all_but(self, names: set[str]) -> None:
        """Additions are left alone: they come once the index is finished."""
        kept = {*names, self._folder.added.name}
        for path in self._folder.path.iterdir():
            if path.name not in kept:
                path.unlink()

    def __enter__(self) -> "DenseBuilder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _nobody(part: float) -> None:
    """Is told of a progress that nobody follows."""
    del part
