"""The internals of faiss 1.15 that services.retrieval.vectors.faiss_files relies on."""

from pathlib import Path

import faiss
import numpy as np

from services.retrieval.vectors.faiss_files import (
    INNER_PRODUCT,
    list_contents,
    read_block,
    read_mapped_lists,
    view_codes,
    write_index,
    write_lists,
)
from tests.unit.retrieval.vectors.conftest import clustered


def test_codes_are_searched_in_place() -> None:
    codes = clustered(50).view(np.uint8).copy()
    index = faiss.IndexFlatIP(32)
    view_codes(index, codes)
    assert index.search(clustered(50), 1)[1][:, 0].tolist() == list(range(50))
    codes[:] = codes[::-1].copy()
    assert index.search(clustered(50), 1)[1][:, 0].tolist() == list(range(49, -1, -1))


def test_blocks_are_merged_into_one_mapped_index(tmp_path: Path) -> None:
    vectors = clustered(900)
    trained = faiss.index_factory(32, "IVF9,RaBitQ7", INNER_PRODUCT)
    trained.train(vectors)
    whole = faiss.clone_index(trained)
    whole.add(vectors)
    paths = []
    for start in range(0, 900, 300):
        block = faiss.clone_index(trained)
        block.add_with_ids(vectors[start : start + 300], np.arange(start, start + 300))
        paths.append(tmp_path / f"{start}.faiss")
        write_index(block, paths[-1])
    blocks = [read_block(path) for path in paths]
    write_lists(blocks, tmp_path / "lists.bin", trained)
    write_index(trained, tmp_path / "base.faiss")
    index = read_mapped_lists(tmp_path / "base.faiss", tmp_path / "lists.bin")
    for number in range(9):
        parts = [list_contents(block, number) for block in blocks]
        numbers, codes = list_contents(index, number)
        assert np.array_equal(numbers, np.concatenate([each for each, _ in parts]))
        assert np.array_equal(codes, np.concatenate([each for _, each in parts]))
    queries = clustered(20, seed=1)
    assert np.array_equal(index.search(queries, 5)[1], whole.search(queries, 5)[1])
