"""Concurrent searches, changes and builds."""

import json
import threading
from collections.abc import Callable
from itertools import cycle

import numpy as np

from services.contracts.retrieval.indexes import IndexMode
from services.retrieval.store.changes import Changes
from services.retrieval.store.index import Index
from services.retrieval.store.query import Query
from services.retrieval.store.store import IndexStore
from tests.support.search.index_processes import start
from tests.support.search.indexes import build_index, passage


def together(*actions: Callable[[], None]) -> None:
    """Run each action in a thread; the first failure fails the test."""
    failures: list[BaseException] = []

    def run(action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def texts(index: Index, text: str = "state") -> list[str]:
    (hits,) = index.search([Query(text, IndexMode.BM25, 10)])
    return [json.loads(hit.document)["text"] for hit in hits]


def test_changes_are_atomic_to_searches(store: IndexStore) -> None:
    build_index(store, "test", [passage(side, "state 0") for side in ("left", "right")])
    index = store.open("test").index
    done = threading.Event()

    def change() -> None:
        try:
            for state in range(1, 25):
                sides = [passage(side, f"state {state}") for side in ("left", "right")]
                Changes(index).put(sides)
                assert texts(index) == [f"state {state}"] * 2
        finally:
            done.set()

    def search() -> None:
        while not done.is_set():
            one, other = texts(index)
            assert one == other

    together(change, search, search)


def test_vector_searches_stay_complete_during_changes(
    store: IndexStore,
) -> None:
    vectors = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
    passages = [passage(f"p{number}", "text") for number in range(60)]
    build_index(store, "test", passages[:40], mode=IndexMode.HYBRID, vectors=vectors[:40])
    index = store.open("test").index
    done = threading.Event()

    def change() -> None:
        try:
            for number in range(40, 60):
                Changes(index).put([passages[number]], vectors[number : number + 1])
                Changes(index).delete([f"p{number - 40}"])
        finally:
            done.set()

    def search() -> None:
        for vector in cycle(vectors):
            modes = (IndexMode.DENSE, IndexMode.HYBRID)
            answers = index.search([Query("text", mode, 5, vector=vector) for mode in modes])
            assert [len(hits) for hits in answers] == [5, 5]
            if done.is_set():
                return

    together(change, search, search)


def test_concurrent_changes_are_all_kept(store: IndexStore) -> None:
    build_index(store, "test", [passage("zero", "text")])
    index = store.open("test").index

    def put(worker: int) -> None:
        for number in range(8):
            Changes(index, timeout=60).put([passage(f"{worker}-{number}", "text")])

    with start("put_some", store.root, "other", 8) as process:
        together(lambda: put(0), lambda: put(1))
        assert process.wait(300) == 0

    kept = {json.loads(document)["id"] for document in index.documents(None, 100)}
    assert kept == {"zero", *(f"{one}-{n}" for one in ("0", "1", "other") for n in range(8))}


def test_an_index_can_be_opened_during_repeated_builds(
    store: IndexStore,
) -> None:
    build_index(store, "test", [passage("one", "text")])
    done = threading.Event()

    def build() -> None:
        try:
            for _ in range(10):
                build_index(store, "test", [passage("one", "text")])
        finally:
            done.set()

    def read() -> None:
        while not done.is_set():
            opened = store.open("test")
            assert opened.problem is None
            assert texts(opened.index, "text") == ["text"]
            opened.index.close()

    together(build, read)
