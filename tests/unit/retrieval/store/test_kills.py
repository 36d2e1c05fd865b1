"""Processes that are killed while they write."""

import json
from pathlib import Path

import numpy as np
import pytest

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.store.index import Index
from services.retrieval.store.layout import VersionFolder
from services.retrieval.store.manifest import Manifest, finish_version
from services.retrieval.store.query import Query
from services.retrieval.store.store import IndexStore
from services.retrieval.store.text_writer import TextWriter
from services.retrieval.store.tokens import Analyzer
from tests.support.search.index_processes import killed_some_time_after, start, vectors_of
from tests.support.search.indexes import build_index, passage

ROUNDS = 4


def test_acknowledged_changes_survive_a_kill_and_none_is_partial(
    store: IndexStore,
) -> None:
    build_index(store, "test", [passage("other", "other")])

    for lines in range(1, ROUNDS + 1):
        with start("put_until_killed", store.root) as process:
            state = killed_some_time_after(process, lines)

        assert whole_state(store.open("test").index) in (state, state + 1)


def test_vectors_survive_a_kill_with_their_passages(store: IndexStore) -> None:
    other = np.ones((1, 8), dtype=np.float32)
    build_index(store, "test", [passage("o", "o")], mode=IndexMode.HYBRID, vectors=other)

    for lines in range(1, ROUNDS + 1):
        with start("put_until_killed", store.root) as process:
            state = killed_some_time_after(process, lines)

        index = store.open("test").index
        found = whole_state(index)
        assert found in (state, state + 1)
        queries = [Query("near", IndexMode.DENSE, 3, vector=vector) for vector in vectors_of(found)]
        answers = index.search(queries)
        assert [hits[0].id for hits in answers] == ["left", "right"]
        assert [hits[0].score for hits in answers] == pytest.approx([1, 1], abs=1e-5)
        assert all(len(hits) == 3 for hits in answers)


def whole_state(index: Index) -> int:
    """The state that both "left" and "right" are in, beside one other passage."""
    passages = [json.loads(document) for document in index.documents(None, 9)]
    sides = {each["id"]: each["text"] for each in passages}
    assert len(sides) == len(passages) == 3
    assert sides["left"] == sides["right"]
    return int(sides["left"].removeprefix("state "))


def test_a_build_resumes_from_the_last_commit(tmp_path: Path) -> None:
    version = VersionFolder(tmp_path / "version")
    committed = 0
    for lines in range(1, ROUNDS + 1):
        with start("write_forever", version.path) as process:
            told = killed_some_time_after(process, lines)
        assert told > committed
        with TextWriter(version, Analyzer("english")) as writer:
            committed = writer.rows
        assert committed in (told, told + 50)

    with TextWriter(version, Analyzer("english")) as writer:
        writer.add([passage("last", "text")])
        writer.finish()
    documents = committed + 1
    finish_version(
        version,
        Manifest(name="test", mode=IndexMode.BM25, language="english", documents=documents),
    )
    ids = [json.loads(one)["id"] for one in Index.open(version).documents(None, documents + 1)]
    assert ids == [*(f"p{number}" for number in range(committed)), "last"]


def test_a_build_killed_at_any_step_leaves_a_working_index(tmp_path: Path) -> None:
    with start("build_and_be_killed", tmp_path) as process:
        output, _ = process.communicate(timeout=300)

    assert process.returncode == 0
    assert int(output) > 10
