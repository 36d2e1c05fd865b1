"""Searching an index of each kind."""

from pathlib import Path

import numpy as np
import pytest

from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.vectors.base import normalized
from services.retrieval.vectors.errors import DeviceUnavailable, DimensionMismatch, InvalidVector
from services.retrieval.vectors.index import DenseIndex
from tests.unit.retrieval.vectors.conftest import DIMENSION, Build, clustered, nearest, recall

KINDS = [kind for kind in DenseKind if kind is not DenseKind.AUTO]
ROWS = 4000


@pytest.mark.parametrize("kind", KINDS)
def test_the_nearest_vectors_are_found(kind: DenseKind, build: Build) -> None:
    vectors, queries = clustered(ROWS), clustered(50, seed=1)
    index = build(kind, vectors)
    scores, numbers = index.search(queries, 10)
    exact = nearest(queries, vectors, 10)
    assert index.kind is kind
    assert recall(numbers, exact) >= (1.0 if kind is DenseKind.FLAT else 0.93)
    cosines = np.take_along_axis(queries @ vectors.T, numbers, axis=1)
    assert np.allclose(scores, cosines, atol=0.02)
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [0.5, 0.003])
def test_searches_respect_allowed_and_excluded(kind: DenseKind, share: float, build: Build) -> None:
    vectors, queries = clustered(ROWS), clustered(20, seed=1)
    index = build(kind, vectors)
    allowed = np.random.default_rng(2).permutation(ROWS)[: int(share * ROWS)]
    excluded = allowed[::4]
    left = np.setdiff1d(allowed, excluded)
    found = index.search(queries, 8, allowed=allowed, excluded=excluded).numbers
    exact = left[nearest(queries, vectors[left], 8)]
    assert np.isin(found, left).all()
    assert recall(found, exact) >= 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_rare_selections_are_searched_completely(kind: DenseKind, build: Build) -> None:
    index = build(kind, clustered(ROWS))
    allowed = np.array([3999, 7, -5, 10**12])
    found = index.search(clustered(3, seed=1), 5, allowed=allowed).numbers
    assert [sorted(row) for row in found.tolist()] == [[-1, -1, -1, 7, 3999]] * 3
    nothing = index.search(clustered(3, seed=1), 5, allowed=np.array([], dtype=np.int64))
    assert (nothing.numbers == -1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_k_may_exceed_the_number_of_vectors(kind: DenseKind, build: Build) -> None:
    index = build(kind, clustered(1200))
    found = index.search(clustered(2, seed=1), 1500).numbers
    for row in found.tolist():
        assert sorted(row)[:300] == [-1] * 300
        assert len({number for number in row if number >= 0}) == 1200


def test_excluded_vectors_are_replaced_by_the_next_ones(build: Build) -> None:
    vectors, queries = clustered(500), clustered(5, seed=1)
    index = build(DenseKind.FLAT, vectors)
    exact = nearest(queries[:1], vectors, 3)[0]
    found = index.search(queries[:1], 1, excluded=exact[:2]).numbers
    assert found.tolist() == [[exact[2]]]


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_tiny_index_of_any_kind_is_exact(rows: int, build: Build) -> None:
    index = build(DenseKind.IVFPQ, clustered(rows))
    found = index.search(clustered(2, seed=1), 3).numbers
    assert index.kind is DenseKind.FLAT
    assert (found >= 0).sum() == 2 * min(rows, 3)


@pytest.mark.drill
def test_large_indexes_are_compressed_by_default(build: Build) -> None:
    vectors, queries = clustered(12_000, dimension=128), clustered(40, seed=1, dimension=128)
    index = build(DenseKind.AUTO, vectors)
    assert index.kind is DenseKind.RABITQ
    assert recall(index.search(queries, 10).numbers, nearest(queries, vectors, 10)) >= 0.95
    assert index.memory_bytes < 0.3 * vectors.nbytes


@pytest.mark.drill
def test_neighbors_spread_over_many_lists_are_found(build: Build) -> None:
    """Short queries are like random ones: no few lists hold their neighbors."""
    random = np.random.default_rng(0)
    vectors = normalized(random.standard_normal((30_000, 64)), 64)
    queries = normalized(random.standard_normal((100, 64)), 64)
    index = build(DenseKind.RABITQ, vectors)
    assert recall(index.search(queries, 10).numbers, nearest(queries, vectors, 10)) >= 0.97


def test_similarity_ignores_vector_length(build: Build) -> None:
    vectors = clustered(300)
    index = build(DenseKind.FLAT, vectors * np.float32(7))
    scores, numbers = index.search(vectors[:4] * np.float32(1e30), 1)
    assert numbers[:, 0].tolist() == [0, 1, 2, 3]
    assert np.allclose(scores, 1)


def test_no_queries_give_no_results(build: Build) -> None:
    index = build(DenseKind.FLAT, clustered(10))
    assert index.search(np.empty((0, DIMENSION)), 3).numbers.shape == (0, 3)


def test_a_query_of_another_dimension_is_refused(build: Build) -> None:
    index = build(DenseKind.FLAT, clustered(10))
    with pytest.raises(DimensionMismatch, match=r"16 dimensions.*has 32"):
        index.search(np.ones((1, 16)), 3)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_non_finite_query_is_refused(value: float, build: Build) -> None:
    index = build(DenseKind.FLAT, clustered(10))
    queries = np.ones((3, DIMENSION))
    queries[1, 5] = value
    with pytest.raises(InvalidVector, match="vector 1 "):
        index.search(queries, 3)


def test_cuda_is_refused_without_gpu_support(build: Build, folder: Path) -> None:
    import faiss

    if hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus():
        pytest.skip("faiss has a GPU here")
    build(DenseKind.FLAT, clustered(10)).close()
    with pytest.raises(DeviceUnavailable, match="GPU"):
        DenseIndex.open(folder, device="cuda")


@pytest.mark.gpu
def test_gpu_results_match_the_cpu(build: Build, folder: Path) -> None:
    import faiss

    if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        pytest.skip("the installed faiss cannot use a GPU")
    vectors, queries = clustered(3000), clustered(20, seed=1)
    build(DenseKind.FLAT, vectors).close()
    found = DenseIndex.open(folder, device="cuda").search(queries, 10).numbers
    assert recall(found, nearest(queries, vectors, 10)) >= 0.97
