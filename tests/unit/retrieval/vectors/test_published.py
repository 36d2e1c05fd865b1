"""Flat indexes that faiss wrote are read as vectors, whole or in parts."""

from pathlib import Path

import faiss
import numpy as np
import pytest

from services.retrieval.vectors.errors import VectorFileUnusable
from services.retrieval.vectors.published import PublishedVectors
from tests.unit.retrieval.vectors.conftest import DIMENSION, clustered

ROWS = 50


def written(path: Path, vectors: np.ndarray, kind: type = faiss.IndexFlatIP) -> Path:
    """A flat index of the vectors, as faiss stores it."""
    index = kind(vectors.shape[1])
    index.add(vectors)
    faiss.write_index(index, str(path))
    return path


def all_of(published: PublishedVectors) -> np.ndarray:
    return np.concatenate(list(published.read(0, 7)))


@pytest.mark.parametrize("kind", [faiss.IndexFlatIP, faiss.IndexFlatL2])
def test_a_flat_index_is_read_in_its_order(tmp_path: Path, kind: type) -> None:
    vectors = clustered(ROWS)

    published = PublishedVectors(written(tmp_path / "e5_Flat.index", vectors, kind))

    assert (published.rows, published.dimension) == (ROWS, DIMENSION)
    assert np.array_equal(all_of(published), vectors)
    assert np.array_equal(next(published.read(45, 100)), vectors[45:])


@pytest.mark.parametrize("part_bytes", [10, 1000, 5000])
def test_parts_in_a_folder_are_read_as_one(tmp_path: Path, part_bytes: int) -> None:
    vectors = clustered(ROWS)
    content = written(tmp_path / "whole", vectors).read_bytes()
    (tmp_path / "README.md").write_text("cat part_* > e5_Flat.index")
    for number, start in enumerate(range(0, len(content), part_bytes)):
        (tmp_path / f"part_{number:04}").write_bytes(content[start : start + part_bytes])

    assert np.array_equal(all_of(PublishedVectors(tmp_path)), vectors)


def test_a_zero_vector_is_kept(tmp_path: Path) -> None:
    vectors = clustered(3)
    vectors[1] = 0

    published = PublishedVectors(written(tmp_path / "v.index", vectors))

    assert np.array_equal(all_of(published), vectors)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content[:-1], r"v\.index: has 6,444 bytes, but 50 vectors of 32 .* 6,445"),
        (lambda content: content + b"x", r"has 6,446 bytes"),
        (lambda content: content[:20], "not a flat index of faiss"),
        (lambda content: b"IwFl" + content[4:], "not a flat index of faiss"),
        (lambda content: content[:8] + b"\1" + content[9:], "header contradicts itself"),
        (lambda content: b"", "not a flat index of faiss"),
    ],
)
def test_another_or_a_damaged_file_is_named(tmp_path: Path, change: object, reason: str) -> None:
    assert callable(change)
    path = written(tmp_path / "v.index", clustered(ROWS))
    path.write_bytes(change(path.read_bytes()))

    with pytest.raises(VectorFileUnusable, match=reason):
        PublishedVectors(path)


def test_a_folder_without_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VectorFileUnusable, match=r"without files named part_\*"):
        PublishedVectors(tmp_path)


@pytest.mark.parametrize("value", [3.0, np.nan])
def test_vectors_that_cosine_would_rank_otherwise_are_refused(tmp_path: Path, value: float) -> None:
    vectors = clustered(ROWS)
    vectors[20] *= value

    with pytest.raises(VectorFileUnusable, match=r"v\.index: the vector of row 21 has length"):
        all_of(PublishedVectors(written(tmp_path / "v.index", vectors)))
