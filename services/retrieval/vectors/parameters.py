"""What an index of vectors is built with."""

from dataclasses import dataclass

from services.contracts.indexes import DenseKind

MAX_DIMENSION = 8192


@dataclass(frozen=True, slots=True)
class DenseParameters:
    """Length of the vectors, and how they are stored; AUTO is settled when the build finishes."""

    dimension: int
    kind: DenseKind = DenseKind.AUTO

    def __post_init__(self) -> None:
        if not 1 <= self.dimension <= MAX_DIMENSION:
            raise ValueError(f"dimension must be from 1 to {MAX_DIMENSION}, not {self.dimension}")
