"""Adding to a finished index, over kills, damage and several processes."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from services.contracts.errors import StorageFull
from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.vectors import additions as log_module
from services.retrieval.vectors.errors import DimensionMismatch, VectorsUnusable
from services.retrieval.vectors.index import DenseIndex
from tests.unit.retrieval.vectors.conftest import DIMENSION, Build, clustered, nearest, recall

BUILT = 200


@pytest.fixture
def index(build: Build) -> DenseIndex:
    return build(DenseKind.FLAT, clustered(BUILT))


def numbers(start: int, count: int) -> np.ndarray:
    return np.arange(start, start + count, dtype=np.int64)


def first(index: DenseIndex, vectors: np.ndarray) -> list[int]:
    return [int(number) for number in index.search(vectors, 1).numbers[:, 0]]


def test_added_vectors_are_searched_with_the_built_ones(index: DenseIndex, folder: Path) -> None:
    more, queries = clustered(100, seed=5), clustered(10, seed=6)
    index.add(numbers(BUILT, 60), more[:60])
    index.add(numbers(BUILT + 60, 40), more[60:])
    exact = nearest(queries, np.concatenate([clustered(BUILT), more]), 10)
    assert recall(index.search(queries, 10).numbers, exact) == 1
    assert recall(DenseIndex.open(folder).search(queries, 10).numbers, exact) == 1
    assert (index.added, index.count) == (100, BUILT + 100)


def test_additions_are_filtered_by_number(index: DenseIndex) -> None:
    more = clustered(3, seed=5)
    index.add(numbers(BUILT, 3), more)
    assert first(index, more) == [200, 201, 202]
    found = index.search(more[:1], 3, allowed=np.array([3, 201]), excluded=np.array([3])).numbers
    assert found.tolist() == [[201, -1, -1]]
    assert 200 not in index.search(more[:1], 50, excluded=np.array([200])).numbers


def test_another_process_sees_additions_after_a_refresh(index: DenseIndex, folder: Path) -> None:
    reader, more = DenseIndex.open(folder), clustered(2, seed=5)
    assert not reader.refresh()
    index.add(numbers(BUILT, 2), more)
    assert first(reader, more) != [200, 201]
    assert reader.refresh()
    assert first(reader, more) == [200, 201]
    assert not reader.refresh()


def test_the_later_vector_of_a_number_wins(index: DenseIndex, folder: Path) -> None:
    one, other = clustered(1, seed=5), -clustered(1, seed=5)
    index.add(numbers(BUILT, 1), one)
    index.add(numbers(BUILT, 1), other)
    for seen in (index, DenseIndex.open(folder)):
        assert seen.added == 1
        assert first(seen, other) == [200]
        assert first(seen, one) != [200]


def test_a_torn_record_is_ignored_and_overwritten(index: DenseIndex, folder: Path) -> None:
    log = folder / "added.log"
    kept, torn = clustered(2, seed=5), clustered(3, seed=6)
    index.add(numbers(BUILT, 2), kept)
    whole = log.read_bytes()
    index.add(numbers(BUILT + 2, 3), torn)
    longer = log.read_bytes()
    for length in [len(whole), len(whole) + 1, len(whole) + 11, len(whole) + 12, len(longer) - 1]:
        log.write_bytes(longer[:length])
        reopened = DenseIndex.open(folder)
        assert reopened.added == 2
        reopened.add(numbers(BUILT + 7, 1), torn[:1])
        assert first(DenseIndex.open(folder), np.concatenate([kept, torn[:1]])) == [200, 201, 207]


def test_a_tail_of_zeros_is_ignored(index: DenseIndex, folder: Path) -> None:
    index.add(numbers(BUILT, 2), clustered(2, seed=5))
    with open(folder / "added.log", "ab") as file:
        file.write(bytes(500))
    assert DenseIndex.open(folder).added == 2


@pytest.mark.parametrize("place", [0, 5, 9, 40])
def test_damage_before_the_end_is_reported_with_the_file(
    place: int, index: DenseIndex, folder: Path
) -> None:
    for start in range(3):
        index.add(numbers(BUILT + 2 * start, 2), clustered(2, seed=start))
    log = folder / "added.log"
    content = bytearray(log.read_bytes())
    content[len(content) // 3 + place] ^= 0x40
    log.write_bytes(content)
    with pytest.raises(VectorsUnusable, match=r"added\.log: is damaged at byte"):
        DenseIndex.open(folder)


def test_a_full_disk_keeps_no_partial_addition(
    index: DenseIndex, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add(numbers(BUILT, 2), clustered(2, seed=5))
    before = (folder / "added.log").read_bytes()

    def full(descriptor: int, content: bytes) -> None:
        os.write(descriptor, content[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(log_module, "write_all", full)
        with pytest.raises(StorageFull, match=r"added\.log"):
            index.add(numbers(BUILT + 2, 2), clustered(2, seed=6))
    assert (folder / "added.log").read_bytes() == before
    assert index.added == 2
    index.add(numbers(BUILT + 2, 2), clustered(2, seed=6))
    assert DenseIndex.open(folder).added == 4


def test_additions_of_another_dimension_are_refused(index: DenseIndex, folder: Path) -> None:
    with pytest.raises(DimensionMismatch):
        index.add(numbers(BUILT, 1), np.ones((1, DIMENSION + 1)))
    assert not (folder / "added.log").exists()


@pytest.mark.parametrize("given", [[BUILT, BUILT], [BUILT], [BUILT - 1, BUILT]])
def test_taken_or_missing_numbers_are_refused(given: list[int], index: DenseIndex) -> None:
    with pytest.raises(ValueError, match="number"):
        index.add(np.array(given), clustered(2))
