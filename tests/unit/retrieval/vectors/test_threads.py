"""Searching from many threads, while vectors are added."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from services.contracts.retrieval.indexes import DenseKind
from tests.unit.retrieval.vectors.conftest import Build, clustered


def test_concurrent_searches_and_additions_are_correct(build: Build) -> None:
    vectors = clustered(3000)
    index = build(DenseKind.RABITQ, vectors)
    more = clustered(60, seed=5)

    def search(row: int) -> int:
        return int(index.search(vectors[row : row + 1], 1).numbers[0, 0])

    def add(row: int) -> int:
        index.add(np.array([3000 + row]), more[row : row + 1])
        return int(index.search(more[row : row + 1], 1).numbers[0, 0])

    with ThreadPoolExecutor(8) as pool:
        searched = pool.map(search, range(0, 3000, 10))
        added = pool.map(add, range(60))
        assert list(searched) == list(range(0, 3000, 10))
        assert list(added) == list(range(3000, 3060))
    assert index.added == 60
