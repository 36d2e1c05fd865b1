"""POST /v1/search: indexes, modes, filters, highlights and time limits."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from services.contracts.errors import InvalidRequest
from services.retrieval.store.index import Index
from services.retrieval.store.query import Hit, Query
from services.retrieval.store.store import IndexStore
from tests.support.search.indexes import build_index, passage
from tests.unit.retrieval.service.conftest import Serve


def search(client: TestClient, query: str, **fields: object) -> list[str]:
    answer = client.post("/v1/search", json={"query": query, **fields})
    assert answer.status_code == 200, answer.text
    (hits,) = answer.json()["results"]
    return [hit["document"]["id"] for hit in hits]


def test_one_query_or_many(client: TestClient) -> None:
    one = client.post("/v1/search", json={"query": "list"}).json()
    many = client.post("/v1/search", json={"query": ["socket", "list"]}).json()

    assert (one["index"], one["mode"]) == ("main", "bm25")
    assert many["results"][1] == one["results"][0]


def test_another_index_is_searched_by_its_name(client: TestClient, indexes: IndexStore) -> None:
    build_index(indexes, "other", [passage("x", "A list of another kind.")])

    assert search(client, "list", index="other") == ["x"]
    assert search(client, "list") == ["lists"]


@pytest.mark.parametrize("name", ["nosuch", "no-such_1"])
def test_an_unknown_index_is_not_found(client: TestClient, name: str) -> None:
    answer = client.post("/v1/search", json={"query": "list", "index": name})

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "index_not_found"


def test_an_index_whose_first_build_goes_on_is_told_from_an_unknown_one(
    client: TestClient, indexes: IndexStore
) -> None:
    (indexes.root / "begun" / "building").mkdir(parents=True)

    answers = [
        client.post("/v1/search", json={"query": "list", "index": name}).json()["error"]["message"]
        for name in ("begun", "nosuch")
    ]

    assert "its first build has not ended (temper ps --kind indexing)" in answers[0]
    assert answers[1] == "there is no index 'nosuch'"


@pytest.mark.parametrize("name", ["../main", "/etc", "a/b", "", "Main"])
def test_an_invalid_name_never_becomes_a_path(client: TestClient, name: str) -> None:
    answer = client.post("/v1/search", json={"query": "list", "index": name})

    assert answer.status_code == 422
    assert answer.json()["error"]["param"] == "index"


def test_filters_restrict_the_passages(client: TestClient) -> None:
    assert search(client, "closed", filter={"equals": {"year": 2003}}) == search(client, "closed")
    assert search(client, "closed", filter={"most": {"year": 2002}}) == []


def test_query_words_are_highlighted(client: TestClient) -> None:
    answer = client.post("/v1/search", json={"query": "sorted lists", "highlights": True})

    (hit,) = answer.json()["results"][0]
    assert any("<em>sorted</em>" in extract for extract in hit["highlights"])


def test_a_mode_that_the_index_lacks_is_refused(client: TestClient) -> None:
    answer = client.post("/v1/search", json={"query": "list", "mode": "dense"})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "mode"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"query": ["q"] * 8193}, "query"),
        ({"query": "q", "filter": {"any_of": {"year": [1] * 1000}}}, "filter.any_of.year"),
        ({"query": "q", "filter": {"near": {"year": 1}}}, "filter.near"),
        ({"query": ["q"] * 100, "topk": 50, "highlights": True}, "topk"),
        ({"query": "q", "timeout": 0}, "timeout"),
        ({"query": "q", "top_k": 3}, "top_k"),
    ],
)
def test_a_bad_field_is_named(client: TestClient, body: dict[str, object], param: str) -> None:
    answer = client.post("/v1/search", json=body)

    assert answer.status_code == 422
    assert answer.json()["error"]["param"] == param


def test_a_failing_request_does_not_fail_its_batch(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = serve(retrieval_threads=1)
    search_well, go_on, begun = Index.search, threading.Event(), threading.Event()

    def fail_for_bad(index: Index, queries: Sequence[Query]) -> list[list[Hit]]:
        begun.set()
        assert go_on.wait(60)
        if any(query.text == "bad" for query in queries):
            raise InvalidRequest("bad", param="query")
        return search_well(index, queries)

    monkeypatch.setattr(Index, "search", fail_for_bad)
    with ThreadPoolExecutor(3) as clients:
        first = clients.submit(client.post, "/v1/search", json={"query": "socket"})
        assert begun.wait(60)
        texts = ["bad", "list"]
        others = [clients.submit(client.post, "/v1/search", json={"query": q}) for q in texts]
        while "temper_retrieval_queries_under_way 3.0" not in client.get("/metrics").text:
            pass
        go_on.set()

        assert [each.result().status_code for each in (first, *others)] == [200, 400, 200]
    assert 'temper_retrieval_batches_total{stage="search"} 2.0' in client.get("/metrics").text


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Searches that end when this is set."""
    go_on = threading.Event()

    def wait(_index: Index, queries: Sequence[Query]) -> list[list[Hit]]:
        assert go_on.wait(60)
        return [[] for _ in queries]

    monkeypatch.setattr(Index, "search", wait)
    yield go_on
    go_on.set()


def test_a_late_answer_is_a_timeout(client: TestClient, stuck: threading.Event) -> None:
    answer = client.post("/v1/search", json={"query": "list", "timeout": 0.05})

    assert answer.status_code == 504
    assert answer.json()["error"]["code"] == "timed_out"
    assert "temper_retrieval_queries_under_way 0.0" in client.get("/metrics").text


def test_excess_load_is_rejected_immediately(serve: Serve, stuck: threading.Event) -> None:
    client = serve(retrieval_max_queries=1)
    first = threading.Thread(
        target=client.post, args=("/retrieve",), kwargs={"json": {"queries": ["a"]}}
    )
    first.start()
    try:
        while "temper_retrieval_queries_under_way 1.0" not in client.get("/metrics").text:
            pass
        refused = client.post("/retrieve", json={"queries": ["b"]})
    finally:
        stuck.set()
        first.join()

    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "overloaded"
    assert int(refused.headers["retry-after"]) >= 1
