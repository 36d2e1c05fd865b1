"""The index store: names, versions, switching, and damage."""

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.store.changes import Changes
from services.retrieval.store.errors import IndexBusy, IndexUnusable, UnknownIndex
from services.retrieval.store.index import Index
from services.retrieval.store.query import Query
from services.retrieval.store.seals import seal, unseal
from services.retrieval.store.store import IndexStore, open_path
from tests.support.search.indexes import build_index, passage, write_version

OLD = [passage("one", "an old passage")]
NEW = [passage("one", "a new passage"), passage("two", "another")]


def ids(index: Index, text: str = "passage") -> list[str]:
    return [hit.id for hit in index.search([Query(text, IndexMode.BM25, 10)])[0]]


def served(store: IndexStore, name: str = "test") -> Path:
    return store.root / name / str(store.version(name))


def test_a_store_lists_its_indexes(store: IndexStore) -> None:
    assert store.names() == []

    build_index(store, "b", OLD)
    build_index(store, "a", NEW)

    assert store.names() == ["a", "b"]
    summary = store.summary("a")
    assert (summary.name, summary.documents, summary.mode) == ("a", 2, IndexMode.BM25)
    assert summary.bytes_on_disk > 0


@pytest.mark.parametrize("name", ["unknown", "", "..", "../test", "a/b", "A", "x" * 65, "\0"])
def test_unknown_and_invalid_names_are_not_found(store: IndexStore, name: str) -> None:
    with pytest.raises(UnknownIndex):
        store.open(name)
    with pytest.raises(UnknownIndex):
        store.drop(name)


def test_the_old_version_is_served_during_a_build(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    open_before = store.open("test").index

    with store.writing("test", timeout=1) as writing:
        write_version(writing.building, NEW)
        assert ids(store.open("test").index) == ["one"]
        version = writing.publish()

    assert store.version("test") == version
    assert store.open("test").index.count == 2
    assert open_before.count == 1


def test_only_the_previous_version_is_kept(store: IndexStore) -> None:
    versions = [build_index(store, "test", OLD) for _ in range(4)]

    *_, third, fourth = versions
    kept = {path.name for path in (store.root / "test").iterdir()}
    assert kept == {"current", "lock", third, fourth}


def test_an_unfinished_version_is_not_published(store: IndexStore) -> None:
    build_index(store, "test", OLD)

    with store.writing("test", timeout=1) as writing:
        writing.building.path.mkdir()
        with pytest.raises(IndexUnusable, match="never finished"):
            writing.publish()

    assert ids(store.open("test").index) == ["one"]


def test_a_pending_version_survives_for_the_next_build(store: IndexStore) -> None:
    with store.writing("test", timeout=1) as writing:
        write_version(writing.building, OLD)

    assert store.names() == []
    with store.writing("test", timeout=1) as writing:
        writing.publish()
    assert ids(store.open("test").index) == ["one"]


def test_a_discarded_build_of_a_new_index_leaves_nothing(store: IndexStore) -> None:
    with store.writing("test", timeout=1) as writing:
        write_version(writing.building, OLD)
        writing.discard()

    assert list(store.root.iterdir()) == []


def test_builds_of_one_index_are_exclusive(store: IndexStore) -> None:
    with (
        store.writing("test", timeout=1),
        pytest.raises(IndexBusy, match="'test' is being built or changed"),
        store.writing("test", timeout=0),
    ):
        pass


def test_a_dropped_index_is_gone_but_stays_open_for_readers(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    index = store.open("test").index

    store.drop("test")

    assert store.names() == []
    assert list(store.root.iterdir()) == []
    assert ids(index) == ["one"]
    build_index(store, "test", NEW)
    assert store.open("test").index.count == 2
    assert index.count == 1


def test_an_index_is_opened_by_its_path(store: IndexStore, tmp_path: Path) -> None:
    build_index(store, "test", OLD)
    elsewhere = tmp_path / "copy"
    (store.root / "test").rename(elsewhere)

    assert ids(open_path(elsewhere).index) == ["one"]
    with pytest.raises(IndexUnusable, match="is not an index"):
        open_path(tmp_path)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def scribbled(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def bit_flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)


def needed(path: Path) -> bool:
    """Whether an index is damaged without it: nothing reads the places of words in passages."""
    return path.suffix != ".pos"


@pytest.mark.parametrize("damage", [Path.unlink, cut, emptied, scribbled, zeroed])
def test_a_damaged_version_falls_back_to_the_last_good_one(
    store: IndexStore, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    first = build_index(store, "test", OLD)
    second = build_index(store, "test", NEW)
    parts = [path for path in served(store).rglob("[!.]*") if path.is_file() and needed(path)]
    assert len(parts) > 5

    for part in parts:
        damaged = shutil.copytree(store.root, tmp_path / "damaged")
        damage(damaged / part.relative_to(store.root))

        opened = IndexStore(damaged).open("test")

        assert opened.version == first, part
        assert ids(opened.index) == ["one"]
        assert opened.problem is not None
        assert second in opened.problem
        assert IndexStore(damaged).summary("test").problem == opened.problem
        shutil.rmtree(damaged)


def test_a_flipped_bit_falls_back_to_the_last_good_version(
    store: IndexStore, tmp_path: Path
) -> None:
    first = build_index(store, "test", OLD)
    build_index(store, "test", NEW)
    folders = (served(store) / "text", served(store) / "passages")
    parts = [path for folder in folders for path in folder.glob("[!.]*") if path.suffix != ".crc32"]
    assert len(parts) > 5

    for part in parts:
        damaged = shutil.copytree(store.root, tmp_path / "damaged")
        bit_flipped(damaged / part.relative_to(store.root))

        opened = IndexStore(damaged).open("test")

        assert opened.version == first, part
        assert part.name in str(opened.problem)
        shutil.rmtree(damaged)


@pytest.mark.parametrize("name", ["manifest.json", "text/meta.json"])
@pytest.mark.parametrize("damage", [Path.unlink, emptied])
def test_an_index_without_the_checksum_of_a_description_is_refused(
    store: IndexStore, name: str, damage: Callable[[Path], None]
) -> None:
    build_index(store, "test", OLD)
    damage(served(store) / f"{name}.crc32")

    with pytest.raises(IndexUnusable, match=rf"{name}\.crc32 is missing or empty"):
        store.open("test")


@pytest.mark.parametrize("name", ["manifest.json", "text/meta.json"])
def test_an_index_built_before_checksums_of_descriptions_is_served(
    store: IndexStore, name: str
) -> None:
    build_index(store, "test", OLD)
    manifest = served(store) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"sealed": true', '"sealed": false'))
    seal(manifest)
    (served(store) / f"{name}.crc32").unlink()

    opened = store.open("test")

    assert (ids(opened.index), opened.problem) == (["one"], None)


@pytest.mark.parametrize("name", ["manifest.json", "text/meta.json"])
def test_every_flipped_bit_of_the_descriptions_is_found(store: IndexStore, name: str) -> None:
    build_index(store, "test", OLD)
    Changes(store.open("test").index).put([passage("added", "An added passage.")])
    path = served(store) / name
    content = path.read_bytes()

    for position in range(0, len(content), 29):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)

        with pytest.raises(IndexUnusable, match=f"{path.name} is damaged: checksum mismatch"):
            store.open("test")


def test_a_kill_between_commit_and_seal_is_no_damage(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    commit = served(store) / "text" / "meta.json"
    Changes(store.open("test").index).put([passage("added", "An added passage.")])

    unseal(commit)

    assert sorted(ids(store.open("test").index)) == ["added", "one"]
    Changes(store.open("test").index).delete(["added"])
    bit_flipped(commit)
    with pytest.raises(IndexUnusable, match=r"meta\.json is damaged"):
        store.open("test")


def test_odd_folders_are_not_listed(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    shutil.copytree(store.root / "test", store.root / "test.bak")
    (store.root / "dangling").symlink_to(store.root / "gone")
    (store.root / "half-dropped").mkdir()
    (store.root / "notes.txt").touch()

    assert store.names() == ["test"]


def test_a_copied_index_is_listed_by_its_own_name(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    shutil.copytree(store.root / "test", store.root / "copy")

    assert [store.summary(name).name for name in store.names()] == ["copy", "test"]


def test_changes_keep_an_index_verifiable(store: IndexStore) -> None:
    version = build_index(store, "test", NEW)
    changes = Changes(store.open("test").index)
    for number in range(3):
        changes.put([passage(f"added {number}", "An added passage.")])
    changes.delete(["added 1"])

    opened = store.open("test")

    assert (opened.version, opened.problem) == (version, None)


def test_an_index_without_a_good_version_is_refused_with_the_reason(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    cut(served(store) / "manifest.json")

    with pytest.raises(IndexUnusable, match=r"manifest\.json is damaged"):
        store.open("test")


def test_an_index_of_a_later_format_is_refused(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    manifest = served(store) / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema_version": 1', '"schema_version": 2'))
    seal(manifest)

    with pytest.raises(IndexUnusable, match="has format 2, but this release reads 1"):
        store.open("test")


def test_a_damaged_pointer_falls_back_to_the_newest_good_version(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    (store.root / "test" / "current").write_bytes(b"\xff../../etc\0")

    opened = store.open("test")

    assert ids(opened.index) == ["one"]
    assert opened.problem is not None


def test_a_damaged_passage_is_never_returned(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    documents = served(store) / "passages" / "documents.jsonl"
    opened = store.open("test").index

    with open(documents, "r+b") as file:
        file.write(documents.read_bytes().replace(b"old", b"odd"))

    with pytest.raises(IndexUnusable, match=r"documents\.jsonl: passage 0 at byte 0 is damaged"):
        ids(opened)


def test_a_zeroed_entry_of_the_passages_is_damage(store: IndexStore) -> None:
    build_index(store, "test", OLD)
    opened = store.open("test").index

    with open(served(store) / "passages" / "places", "r+b") as file:
        file.write(bytes(16))

    with pytest.raises(IndexUnusable, match=r"documents\.jsonl: passage 0 at byte 0 is damaged"):
        ids(opened)


def test_a_build_waits_for_one_that_cleans_up(store: IndexStore) -> None:
    first = store.writing("test", timeout=1)
    first.__enter__()

    def build() -> None:
        with store.writing("test", timeout=120) as writing:
            write_version(writing.building, OLD)
            writing.publish()

    built = threading.Thread(target=build)
    built.start()
    first.__exit__(None, None, None)
    built.join(180)

    assert ids(store.open("test").index) == ["one"]


def test_a_read_only_index_is_searchable_but_not_changeable(
    store: IndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write everywhere, so that the answer of the system is given for it."""
    build_index(store, "test", OLD)
    text = served(store) / "text"
    before = sorted(path.name for path in text.iterdir())
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)

    assert ids(store.open("test").index) == ["one"]
    assert sorted(path.name for path in text.iterdir()) == before
