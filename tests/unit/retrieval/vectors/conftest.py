from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.vectors.builder import DenseBuilder, DenseParameters
from services.retrieval.vectors.index import DenseIndex

DIMENSION = 32

Vectors = NDArray[np.float32]
Build = Callable[[DenseKind, Vectors], DenseIndex]


def clustered(count: int, seed: int = 0, dimension: int = DIMENSION) -> Vectors:
    """Unit vectors around forty centers, the same for every seed."""
    centers = np.random.default_rng(99).standard_normal((40, dimension))
    random = np.random.default_rng(seed)
    rows = centers[random.integers(0, 40, count)] + 0.6 * random.standard_normal((count, dimension))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def nearest(queries: Vectors, vectors: Vectors, k: int) -> NDArray[np.int64]:
    """The results of an exact search."""
    return np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :k]


def recall(found: NDArray[np.int64], exact: NDArray[np.int64]) -> float:
    """Recall: the fraction of exact neighbors found."""
    pairs = zip(found.tolist(), exact.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in pairs]))


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Threads of the library that wait for each other are slow where tests run side by side."""
    faiss.omp_set_num_threads(1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "dense"


@pytest.fixture
def build(folder: Path) -> Build:
    def built(kind: DenseKind, vectors: Vectors) -> DenseIndex:
        with DenseBuilder(folder, DenseParameters(vectors.shape[1], kind)) as builder:
            builder.append(vectors)
            builder.finish()
        return DenseIndex.open(folder)

    return built
