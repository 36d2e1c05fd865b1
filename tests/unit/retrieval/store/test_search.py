"""Searching an index by words."""

import json

import numpy as np
import pytest

from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.retrieval.indexes import IndexMode
from services.contracts.retrieval.search import Filter
from services.retrieval.corpus.document import Document
from services.retrieval.store.index import Index
from services.retrieval.store.query import Hit, Query
from services.retrieval.store.store import IndexStore
from tests.support.search.indexes import build_index, passage

PASSAGES = [
    passage("fox", "The quick brown fox jumps over the dog", "Fox", year=1999, tags=["a", "b"]),
    passage("dog", "A dog sleeps in the sun", "Dog", year=2005, score=-0.5, draft=True),
    passage("cat", "A cat sleeps too, and no dog comes near", "Cat", year=2010.5, draft=False),
    passage("龙", "龙是中国神话中的一种神异动物", "龙", lang="zh", author={"name": "无名"}),
]


@pytest.fixture
def index(store: IndexStore) -> Index:
    build_index(store, "animals", PASSAGES)
    return store.open("animals").index


def search(index: Index, text: str, topk: int = 10, conditions: Filter | None = None) -> list[Hit]:
    return index.search([Query(text, IndexMode.BM25, topk, filter=conditions)])[0]


def found(index: Index, text: str, **conditions: object) -> set[str]:
    wanted = Filter.model_validate(conditions) if conditions else None
    return {hit.id for hit in search(index, text, conditions=wanted)}


def test_the_best_passage_comes_first_with_the_highest_score(index: Index) -> None:
    hits = search(index, "quick dog")

    assert hits[0].id == "fox"
    assert {hit.id for hit in hits} == {"fox", "dog", "cat"}
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_passage_is_returned_unchanged(index: Index) -> None:
    (hit,) = search(index, "神话")

    assert hit.document == PASSAGES[3].to_json()
    assert "龙" in hit.document.decode()


def test_hit_counts_respect_topk_and_matches(index: Index) -> None:
    assert len(search(index, "dog", topk=2)) == 2
    assert len(search(index, "dog", topk=1000)) == 3


@pytest.mark.parametrize("text", ["", "   ", "?!", "\ud800", "unicorn"])
def test_a_query_without_a_known_word_has_no_hits(index: Index, text: str) -> None:
    assert search(index, text) == []


def test_batch_results_keep_the_query_order(index: Index) -> None:
    texts = ["fox", "unicorn", "sun", "神话", "cat"] * 20
    queries = [Query(text, IndexMode.BM25, 1) for text in texts]

    answers = index.search(queries)

    assert [[hit.id for hit in hits] for hits in answers] == [
        ["fox"], [], ["dog"], ["龙"], ["cat"]
    ] * 20  # fmt: skip


def test_repeated_query_words_are_weighted(index: Index) -> None:
    (once,), (twice,) = search(index, "sun"), search(index, "sun sun")

    assert twice.score == pytest.approx(2 * once.score)


def test_a_huge_query_finds_what_its_words_find(index: Index) -> None:
    noise = " ".join(f"nothing{number}" for number in range(5000))

    assert found(index, f"{noise} 神话 sun {noise}") == {"龙", "dog"}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"equals": {"year": 1999}}, {"fox"}),
        ({"equals": {"year": 1999.0}}, {"fox"}),
        ({"equals": {"year": "1999"}}, set()),
        ({"equals": {"draft": True}}, {"dog"}),
        ({"equals": {"draft": 1}}, set()),
        ({"equals": {"tags": "b"}}, {"fox"}),
        ({"any_of": {"year": [1999, 2010.5, 3]}}, {"fox", "cat"}),
        ({"any_of": {"year": []}}, set()),
        ({}, {"fox", "dog", "cat"}),
        ({"least": {"year": 2000}}, {"dog", "cat"}),
        ({"most": {"year": 2005}}, {"fox", "dog"}),
        ({"least": {"year": 2000}, "most": {"year": 2006}}, {"dog"}),
        ({"least": {"score": -1}}, {"dog"}),
        ({"most": {"score": -0.75}}, set()),
        ({"least": {"year": 10**30}}, set()),
        ({"equals": {"draft": True}, "least": {"year": 2006}}, set()),
        ({"equals": {'no "such": [field]': 1}}, set()),
        ({"least": {'no "such": [field]': 1}}, set()),
    ],
)
def test_hits_satisfy_all_conditions(
    index: Index, conditions: dict[str, object], expected: set[str]
) -> None:
    assert found(index, "dog", **conditions) == expected


def test_nested_fields_are_filtered_by_path(index: Index) -> None:
    assert found(index, "神话", equals={"author.name": "无名"}) == {"龙"}
    assert found(index, "神话", equals={"author.name": "other"}) == set()


def test_filters_do_not_change_scores(index: Index) -> None:
    (alone,) = search(index, "dog", conditions=Filter(equals={"draft": True}))

    assert alone.score == pytest.approx({hit.id: hit.score for hit in search(index, "dog")}["dog"])


def test_a_bm25_index_refuses_dense_searches(index: Index) -> None:
    query = Query("dog", IndexMode.DENSE, 3, vector=np.zeros(4, dtype=np.float32))

    with pytest.raises(InvalidRequest, match="by bm25 only, not by dense") as refused:
        index.search([query])
    assert refused.value.param == "mode"


def test_passages_are_paged_in_insertion_order(store: IndexStore) -> None:
    build_index(store, "many", [passage(f"p{number}", "text") for number in range(1200)])
    index = store.open("many").index

    ids: list[str] = []
    while page := index.documents(ids[-1] if ids else None, 500):
        ids += [json.loads(document)["id"] for document in page]

    assert ids == [f"p{number}" for number in range(1200)]
    with pytest.raises(NotFound, match="No document 'unknown'"):
        index.documents("unknown", 1)


def test_a_passage_is_found_by_an_id_of_any_length(store: IndexStore) -> None:
    long = "x" * 100_000
    documents = [Document(long + end, "one", "", "one") for end in ("a", "b")]
    build_index(store, "long", documents)
    index = store.open("long").index

    assert index.document(long + "b") == documents[1].to_json()
    assert index.document(long) is None


def test_every_word_of_a_query_counts(store: IndexStore) -> None:
    """However common the words are, and however many: a passage's score is the sum of theirs."""
    rare = [f"rare{number}" for number in range(100)]
    documents = [
        passage(f"p{number}", " ".join(f"every{n}" for n in range(1, 6) if number % n == 0))
        for number in range(1, 1_500)
    ]
    documents += [passage(word, f"{word} every1") for word in rare]
    build_index(store, "common", documents)
    index = store.open("common").index

    def scores(text: str) -> dict[str, float]:
        return {hit.id: hit.score for hit in search(index, text, topk=2_000)}

    for query in ("every1 every2 every5", "rare7 every1", "every3 every4 every4", " ".join(rare)):
        alone = [scores(word) for word in query.split()]
        expected = {
            name: sum(each.get(name, 0.0) for each in alone) for name in set().union(*alone)
        }
        assert scores(query) == pytest.approx(expected, rel=1e-4)
    assert [hit.id for hit in search(index, "rare7 every1", topk=1)] == ["rare7"]
    assert len(search(index, "rare7 every1", topk=10)) == 10
