"""Searching by vectors and by both: fusion, conditions and changes."""

import json

import numpy as np
import pytest

from services.contracts.retrieval.indexes import IndexMode
from services.contracts.retrieval.search import Filter
from services.retrieval.store import nearest as nearest_module
from services.retrieval.store.changes import Changes
from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.index import Index
from services.retrieval.store.query import Fusion, Query
from services.retrieval.store.store import IndexStore
from services.retrieval.vectors.errors import DimensionMismatch
from tests.support.search.indexes import build_index, passage

SIZE = 40
DIMENSION = 8


def near(place: float) -> np.ndarray:
    """A vector; those of nearby places are similar."""
    angles = place / SIZE * np.linspace(0.2, 1.4, DIMENSION // 2)
    vector = np.concatenate([np.cos(angles), np.sin(angles)]).astype(np.float32)
    return np.asarray(vector / np.linalg.norm(vector))


def vectors(*places: float) -> np.ndarray:
    return np.stack([near(place) for place in places])


@pytest.fixture
def index(store: IndexStore) -> Index:
    """Passages "0" to "39" in a row, each similar to its neighbors, the even ones of kind even."""
    passages = [
        passage(str(number), f"word{number} common", kind="odd" if number % 2 else "even")
        for number in range(SIZE)
    ]
    build_index(store, "test", passages, mode=IndexMode.HYBRID, vectors=vectors(*range(SIZE)))
    return store.open("test").index


def dense(index: Index, place: float, topk: int = 3, conditions: Filter | None = None) -> list[str]:
    query = Query("near", IndexMode.DENSE, topk, vector=near(place), filter=conditions)
    return [hit.id for hit in index.search([query])[0]]


def test_the_nearest_passages_come_first(index: Index) -> None:
    assert dense(index, 7.1) == ["7", "8", "6"]
    (hits,) = index.search([Query("near", IndexMode.DENSE, 1, vector=near(7))])
    assert hits[0].score == pytest.approx(1.0, abs=1e-5)


def test_hits_never_exceed_passages(index: Index) -> None:
    assert len(dense(index, 0, topk=1000)) == SIZE


@pytest.mark.parametrize("mode", list(IndexMode))
def test_a_blank_query_finds_nothing_in_any_mode(index: Index, mode: IndexMode) -> None:
    blank, other = (Query(text, mode, 3, vector=near(7)) for text in (" \n", "word7"))

    assert [len(hits) > 0 for hits in index.search([blank, other, blank])] == [False, True, False]


@pytest.mark.parametrize("listed", [0, 100_000])
def test_filters_apply_to_dense_searches(
    index: Index, monkeypatch: pytest.MonkeyPatch, listed: int
) -> None:
    """Whether what meets them is listed beforehand, or the nearest are looked through."""
    monkeypatch.setattr(nearest_module, "LISTED", listed)
    even = Filter(equals={"kind": "even"})

    assert dense(index, 7.1, conditions=even) == ["8", "6", "10"]
    assert len(dense(index, 7.1, topk=1000, conditions=even)) == SIZE // 2
    assert dense(index, 7.1, conditions=Filter(equals={"kind": "none"})) == []


def test_a_batch_may_mix_modes_and_filters(index: Index) -> None:
    even, odd = Filter(equals={"kind": "even"}), Filter(equals={"kind": "odd"})
    queries = [
        Query("near", IndexMode.DENSE, 1, vector=near(4.1), filter=odd),
        Query("word9", IndexMode.BM25, 5),
        Query("near", IndexMode.DENSE, 2, vector=near(4.1)),
        Query("word20", IndexMode.HYBRID, 1, vector=near(20)),
        Query("near", IndexMode.DENSE, 1, vector=near(4.1), filter=even),
    ]

    answers = index.search(queries)

    assert [[hit.id for hit in hits] for hits in answers] == [
        ["5"],
        ["9"],
        ["4", "5"],
        ["20"],
        ["4"],
    ]


def test_a_hybrid_hit_reports_its_ranks(index: Index) -> None:
    query = Query("word9 common", IndexMode.HYBRID, 3, vector=near(9), fusion=Fusion(60, 10))

    (hits,) = index.search([query])

    assert hits[0].id == "9"
    assert hits[0].score == pytest.approx(2 / 61)
    assert [(part.mode, part.rank) for part in hits[0].parts] == [
        (IndexMode.BM25, 1),
        (IndexMode.DENSE, 1),
    ]


def test_a_replaced_passage_is_found_only_by_its_new_vector(index: Index) -> None:
    Changes(index).put([passage("7", "moved")], vectors(30.1))

    assert dense(index, 7.1) == ["8", "6", "9"]
    assert dense(index, 30.1, topk=1) == ["7"]


def test_deleted_passages_do_not_displace_others(index: Index) -> None:
    Changes(index).delete([str(number) for number in range(20)])

    assert dense(index, 0) == ["20", "21", "22"]
    assert len(dense(index, 0, topk=100)) == 20


def test_an_added_passage_is_found_by_every_process(store: IndexStore, index: Index) -> None:
    other = store.open("test").index

    Changes(index).put([passage("new", "new"), passage("new", "newer")], vectors(7.3, 7.4))

    assert dense(other, 7.4, topk=1) == ["new"]
    assert json.loads(other.document("new") or b"")["text"] == "newer"
    Changes(other).put([passage("newest", "newest")], vectors(7.45))
    assert dense(index, 7.44, topk=2) == ["newest", "new"]


def test_vectors_of_another_dimension_are_refused(index: Index) -> None:
    with pytest.raises(DimensionMismatch, match=r"4 dimensions.*index has 8"):
        index.search([Query("near", IndexMode.DENSE, 3, vector=np.ones(4, dtype=np.float32))])
    with pytest.raises(DimensionMismatch, match=r"4 dimensions.*index has 8"):
        Changes(index).put([passage("x", "x")], np.ones((1, 4), dtype=np.float32))
    assert index.count == SIZE


def test_dense_queries_and_changes_need_vectors(index: Index) -> None:
    with pytest.raises(ValueError, match="hybrid needs its vector"):
        index.search([Query("word", IndexMode.HYBRID, 3)])
    with pytest.raises(ValueError, match="vectors"):
        Changes(index).put([passage("x", "x")])


def test_a_dense_index_refuses_bm25_but_filters(store: IndexStore) -> None:
    passages = [passage(str(number), "text", even=number % 2 == 0) for number in range(4)]
    build_index(store, "test", passages, mode=IndexMode.DENSE, vectors=vectors(*range(4)))
    index = store.open("test").index

    assert dense(index, 1.1, topk=1, conditions=Filter(equals={"even": True})) == ["2"]
    assert store.summary("test").dimension == DIMENSION


def test_fewer_vectors_than_passages_are_refused(store: IndexStore) -> None:
    passages = [passage(str(number), "text") for number in range(4)]

    with pytest.raises(IndexUnusable, match="3 vectors of 8 dimensions, but 4 of 8"):
        build_index(store, "test", passages, mode=IndexMode.DENSE, vectors=vectors(0, 1, 2))
