"""POST /retrieve is compatible with Search-R1, without its faults."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from services.contracts.retrieval.search import MAX_QUERY_CHARACTERS, MAX_TOPK
from services.retrieval.store.store import IndexStore
from tests.support.search.indexes import build_index, passage
from tests.unit.retrieval.service.conftest import Serve


def retrieve(client: TestClient, *queries: str, **fields: object) -> list[list[dict[str, Any]]]:
    answer = client.post("/retrieve", json={"queries": list(queries), **fields})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["result"])


def ids(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["id"] for hit in hits]


def test_documents_are_plain_without_return_scores(client: TestClient) -> None:
    (hits,) = retrieve(client, "sorted list", topk=1)

    assert hits == [
        {
            "id": "lists",
            "contents": '"Lists"\nA list is sorted in place by its method sort.',
            "title": "Lists",
            "text": "A list is sorted in place by its method sort.",
            "metadata": {"year": 2001},
        }
    ]


def test_documents_have_scores_with_return_scores(client: TestClient) -> None:
    (plain,) = retrieve(client, "closed")
    (scored,) = retrieve(client, "closed", return_scores=True)

    assert [hit["document"] for hit in scored] == plain
    scores = [hit["score"] for hit in scored]
    assert len(scores) == 2
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("queries", [[], ["socket"], ["socket", "list"], ["list", "", "socket"]])
def test_results_are_in_the_order_of_the_queries(client: TestClient, queries: list[str]) -> None:
    found = retrieve(client, *queries, topk=1)

    expected = {"socket": ["sockets"], "list": ["lists"], "": []}
    assert [ids(hits) for hits in found] == [expected[query] for query in queries]


def test_more_queries_than_a_chunk_keep_their_order(client: TestClient) -> None:
    queries = ["socket", "list", "file"] * 50

    found = retrieve(client, *queries, topk=1)

    assert [ids(hits) for hits in found] == [["sockets"], ["lists"], ["files"]] * 50


def test_a_search_r1_rollout_batch_fits_in_one_request(client: TestClient) -> None:
    queries = ["socket", "list", "file", "xyzzy"] * 640  # 2,560, as its GRPO scripts send

    found = retrieve(client, *queries, topk=3, return_scores=True)

    first = [hits[0]["document"]["id"] if hits else None for hits in found]
    assert first == ["sockets", "lists", "files", None] * 640


def test_the_number_of_queries_in_a_request_is_a_setting(serve: Serve) -> None:
    client = serve(retrieval_request_queries=2)

    refused = client.post("/retrieve", json={"queries": ["list"] * 3})

    assert len(retrieve(client, "list", "list")) == 2
    assert refused.status_code == 422
    assert "TEMPER_RETRIEVAL_REQUEST_QUERIES allows 2" in refused.json()["error"]["message"]


def test_fewer_hits_than_topk_give_a_shorter_list(client: TestClient) -> None:
    assert ids(retrieve(client, "sorted", topk=100)[0]) == ["lists"]
    assert retrieve(client, "nothing has this word: xyzzy") == [[]]


@pytest.mark.parametrize("topk", [None, 0])
def test_a_null_or_zero_topk_is_the_default(serve: Serve, topk: int | None) -> None:
    client = serve(retrieval_topk=1)

    assert len(retrieve(client, "closed", topk=topk)[0]) == 1
    assert len(retrieve(client, "closed", topk=2)[0]) == 2


def test_every_script_is_searchable_and_returned_as_utf8(client: TestClient) -> None:
    answer = client.post("/retrieve", json={"queries": ["日本の首都"], "topk": 1})

    assert answer.json()["result"][0][0]["title"] == "東京"
    assert "東京" in answer.text


def test_a_lone_surrogate_is_not_an_error(client: TestClient) -> None:
    body = json.dumps({"queries": ["list \ud83d"], "topk": 1})

    answer = client.post("/retrieve", content=body)

    assert answer.status_code == 200
    assert ids(answer.json()["result"][0]) == ["lists"]


def test_a_very_long_query_is_searched(client: TestClient) -> None:
    words = "list " + "word " * ((MAX_QUERY_CHARACTERS - 5) // 5)

    assert ids(retrieve(client, words, topk=1)[0]) == ["lists"]


def test_a_longer_query_is_cut_with_a_note(client: TestClient) -> None:
    queries = ["file", "list " + "x" * MAX_QUERY_CHARACTERS]

    answer = client.post("/retrieve", json={"queries": queries, "topk": 1}).json()

    assert [ids(hits) for hits in answer["result"]] == [["files"], ["lists"]]
    length, used = len(queries[1]), MAX_QUERY_CHARACTERS
    assert answer["notes"] == [f"query 1 has {length} characters; the first {used} were used"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "queries"),
        ({"queries": "one"}, "queries"),
        ({"queries": [1]}, "queries[0]"),
        ({"queries": ["q"] * 8193}, "queries"),
        ({"queries": ["q"], "topk": MAX_TOPK + 1}, "topk"),
        ({"queries": ["q"], "topk": -1}, "topk"),
        ({"queries": ["q"] * 1024, "topk": MAX_TOPK}, "topk"),
        ({"queries": ["q"], "return_scores": "perhaps"}, "return_scores"),
    ],
)
def test_a_bad_field_is_named(client: TestClient, body: dict[str, object], param: str) -> None:
    answer = client.post("/retrieve", json=body)

    assert answer.status_code == 422
    assert answer.json()["error"]["param"] == param


def test_fields_of_other_clients_are_ignored(client: TestClient) -> None:
    assert ids(retrieve(client, "list", topk=1, user="somebody")[0]) == ["lists"]


def test_a_key_is_required_when_keys_are_configured(serve: Serve) -> None:
    hashed = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"  # of "key"
    client = serve(api_key_hashes=[hashed])
    body = {"queries": ["list"]}

    assert client.post("/retrieve", json=body).status_code == 401
    assert client.post("/retrieve", json=body, auth=("any", "key")).status_code == 200
    bearer = {"Authorization": "Bearer key"}
    assert client.post("/retrieve", json=body, headers=bearer).status_code == 200


def test_a_repeated_query_is_a_counted_cache_hit(client: TestClient) -> None:
    first = retrieve(client, "closed", "list")
    second = retrieve(client, "list", "closed")

    assert second == [first[1], first[0]]
    cache = client.get("/v1/indexes").json()["cache"]
    assert (cache["hits"], cache["misses"], cache["entries"]) == (2, 2, 2)
    assert "temper_retrieval_cache_hits_total 2.0" in client.get("/metrics").text


def test_nothing_is_cached_when_the_cache_is_off(serve: Serve) -> None:
    client = serve(retrieval_cache_mb=0)
    retrieve(client, "list")
    retrieve(client, "list")

    cache = client.get("/v1/indexes").json()["cache"]
    assert (cache["hits"], cache["entries"]) == (0, 0)


def test_another_index_can_be_requested(serve: Serve, indexes: IndexStore) -> None:
    build_index(indexes, "other", [passage("x", "A list of another index.")])
    client = serve()

    (hits,) = retrieve(client, "list", index="other")
    unknown = client.post("/retrieve", json={"queries": ["list"], "index": "nowhere"})

    assert ids(hits) == ["x"]
    assert unknown.status_code == 404
    assert unknown.json()["error"]["param"] == "index"
