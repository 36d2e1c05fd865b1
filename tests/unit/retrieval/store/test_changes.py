"""Adding, replacing and deleting passages."""

import json
import resource

import numpy as np
import pytest

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.store import changes as changes_module
from services.retrieval.store.changes import Changes
from services.retrieval.store.errors import IndexBusy, IndexFull, OutOfDisk, UnknownIndex
from services.retrieval.store.index import Index
from services.retrieval.store.query import Query
from services.retrieval.store.seals import unseal
from services.retrieval.store.store import IndexStore
from tests.support.search.indexes import build_index, passage

OLD = [passage("one", "an old passage", year=1999), passage("two", "another old passage")]


@pytest.fixture
def index(store: IndexStore) -> Index:
    build_index(store, "test", OLD)
    return store.open("test").index


def found(index: Index, text: str) -> set[str]:
    return {hit.id for hit in index.search([Query(text, IndexMode.BM25, 100)])[0]}


def test_put_passages_are_found_by_the_next_search(index: Index) -> None:
    assert Changes(index).put([passage("three", "a new passage")]) == 1

    assert found(index, "new") == {"three"}
    assert found(index, "passage") == {"one", "two", "three"}
    assert index.count == 3


def test_a_passage_with_the_same_id_is_replaced(index: Index) -> None:
    Changes(index).put([passage("one", "a replacement")])

    assert found(index, "old") == {"two"}
    assert found(index, "replacement") == {"one"}
    assert index.document("one") == passage("one", "a replacement").to_json()
    assert index.count == 2


def test_the_last_of_duplicate_ids_wins(index: Index) -> None:
    put = Changes(index).put([passage("x", "first"), passage("y", "why"), passage("x", "second")])

    assert put == 2
    assert found(index, "first second") == {"x"}
    assert index.document("x") == passage("x", "second").to_json()


def test_a_deleted_passage_is_gone(index: Index) -> None:
    assert Changes(index).delete(["one", "unknown", "one"]) == 1

    assert found(index, "passage") == {"two"}
    assert index.document("one") is None
    assert [json.loads(each)["id"] for each in index.documents(None, 10)] == ["two"]


def test_an_empty_change_changes_nothing(index: Index) -> None:
    assert Changes(index).put([]) == 0
    assert Changes(index).delete([]) == 0
    assert index.count == 2


def test_other_processes_see_a_change_immediately(store: IndexStore, index: Index) -> None:
    other = store.open("test").index
    before = other.generation

    Changes(index).put([passage("three", "a new passage")])

    assert other.generation != before
    assert found(other, "new") == {"three"}


def test_an_unreadable_change_leaves_the_index_unchanged(store: IndexStore, index: Index) -> None:
    meta = index.folder.text / "meta.json"
    meta.with_name("new").write_text("{ not a commit")
    meta.with_name("new").replace(meta)

    assert found(index, "passage") == {"one", "two"}
    assert index.problem is not None
    assert str(index.folder.text) in index.problem
    assert index.summary().problem == index.problem


def test_changes_wait_for_the_lock_and_time_out(store: IndexStore, index: Index) -> None:
    with store.writing("test", timeout=1), pytest.raises(IndexBusy, match="built or changed"):
        Changes(index, timeout=0.1).put([passage("three", "new")])

    assert index.count == 2


def test_a_replaced_version_refuses_changes(store: IndexStore, index: Index) -> None:
    build_index(store, "test", OLD)

    with pytest.raises(IndexBusy, match="another version"):
        Changes(index).put([passage("three", "new")])


def test_a_dropped_index_refuses_changes(store: IndexStore, index: Index) -> None:
    store.drop("test")

    with pytest.raises(UnknownIndex, match="no longer exists"):
        Changes(index).put([passage("three", "new")])
    assert store.names() == []


def test_additions_are_limited(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes_module, "MAX_ADDED", 3)
    Changes(index).put([passage("x", "x")])
    Changes(index).put([passage("x", "y"), passage("z", "z")])

    with pytest.raises(IndexFull, match="rebuild it"):
        Changes(index).put([passage("one more", "x")])
    assert index.count == 4


def test_vectors_are_required_exactly_for_dense_indexes(index: Index) -> None:
    with pytest.raises(ValueError, match="vectors"):
        Changes(index).put([passage("x", "x")], np.zeros((1, 4), dtype=np.float32))


def test_a_full_disk_leaves_the_index_unchanged(index: Index) -> None:
    """The limit on the size of files stands in for the disk: writing fails as it would there."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    for most in (60, 400):
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))
        try:
            with pytest.raises(OutOfDisk, match=str(index.folder.path)):
                Changes(index).put([passage("x", "x " * 200)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)

        assert found(index, "passage") == {"one", "two"}
        assert index.count == 2

    Changes(index).put([passage("x", "new")])
    assert found(index, "new") == {"x"}


def test_leftovers_of_a_killed_change_do_not_block_others(index: Index) -> None:
    """All was written but the commit: as a process leaves it that is killed at the last moment."""
    commit = index.folder.text / "meta.json"
    before = commit.read_bytes()
    Changes(index).put([passage("one", "killed")])
    unseal(commit)
    commit.write_bytes(before)

    Changes(index).put([passage("one", "made")])

    assert found(index, "killed made old") == {"one", "two"}
    assert index.document("one") == passage("one", "made").to_json()


def test_many_small_changes_leave_few_segments(index: Index) -> None:
    changes = Changes(index)
    for number in range(40):
        changes.put([passage(f"x{number}", "small")])

    files = [path for path in index.folder.text.iterdir() if path.suffix == ".idx"]
    assert len(files) < 20
    assert len(found(index, "small")) == 40
