"""Documents are added, replaced and deleted while their index is searched."""

from typing import Any

import pytest
from starlette.testclient import TestClient

DOCUMENTS = "/v1/indexes/main/documents"


def found(client: TestClient, query: str) -> list[str]:
    answer = client.post("/retrieve", json={"queries": [query]})
    return [hit["id"] for hit in answer.json()["result"][0]]


def put(client: TestClient, *rows: dict[str, Any]) -> None:
    answer = client.post(DOCUMENTS, json={"documents": list(rows)})
    assert answer.status_code == 200, answer.text
    assert answer.json()["put"] == len(rows)


def test_added_documents_are_found_by_the_next_search(client: TestClient) -> None:
    assert found(client, "tuples") == []  # and not answered from the cache

    put(client, {"id": "t", "contents": "Tuples do not change."}, {"id": "u", "text": "Sets do."})

    assert found(client, "tuples") == ["t"]
    assert client.get(f"{DOCUMENTS}/u").json()["contents"] == "Sets do."
    assert client.get("/v1/indexes/main").json()["documents"] == 6


def test_a_document_with_a_known_id_is_replaced(client: TestClient) -> None:
    answer = client.put(f"{DOCUMENTS}/lists", json={"title": "Lists", "text": "A list is long."})

    assert answer.json()["put"] == 1
    assert found(client, "sorted") == []
    assert found(client, "long") == ["lists"]
    assert client.get("/v1/indexes/main").json()["documents"] == 4


def test_deleted_documents_are_gone(client: TestClient) -> None:
    first = client.post(f"{DOCUMENTS}/delete", json={"ids": ["lists", "nosuch"]})
    second = client.delete(f"{DOCUMENTS}/files")

    assert (first.json()["deleted"], second.json()["deleted"]) == (1, 1)
    assert found(client, "closed") == ["sockets"]
    assert client.get(f"{DOCUMENTS}/lists").status_code == 404
    assert client.delete(f"{DOCUMENTS}/lists").status_code == 404


def test_ids_may_contain_any_path_characters(client: TestClient) -> None:
    put(client, {"id": "a/b c?日", "contents": "An odd one."})

    path = f"{DOCUMENTS}/a%2Fb%20c%3F%E6%97%A5"
    assert client.get(path).json()["id"] == "a/b c?日"
    assert client.delete(path).json()["deleted"] == 1


def test_pages_cover_every_document_once(client: TestClient) -> None:
    seen: list[str] = []
    page = client.get(DOCUMENTS, params={"limit": 3}).json()
    seen += [document["id"] for document in page["data"]]
    assert page["has_more"]
    page = client.get(DOCUMENTS, params={"limit": 3, "after": page["last_id"]}).json()
    seen += [document["id"] for document in page["data"]]

    assert not page["has_more"]
    assert seen == ["lists", "files", "sockets", "日本"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"contents": "no id"}, "documents[1]: id is missing"),
        ({"id": "x"}, "documents[1]: contents is missing"),
        ({"id": "x", "contents": 7}, "documents[1]: contents is 7"),
        ({"id": "x", "contents": "a", "metadata": []}, "documents[1]: metadata is a list"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_stored(
    client: TestClient, row: dict[str, Any], said: str
) -> None:
    rows = [{"id": "good", "contents": "A good one."}, row]

    answer = client.post(DOCUMENTS, json={"documents": rows})

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(said)
    assert client.get(f"{DOCUMENTS}/good").status_code == 404


def test_invalid_json_is_never_indexed(client: TestClient) -> None:
    body = '{"documents": [{"id": "x", "contents": "a", "weight": NaN}]}'
    headers = {"Content-Type": "application/json"}

    answer = client.post(DOCUMENTS, content=body, headers=headers)

    assert answer.status_code == 400
    assert client.get(f"{DOCUMENTS}/x").status_code == 404


def test_a_document_is_put_under_the_id_of_its_path(client: TestClient) -> None:
    answer = client.put(f"{DOCUMENTS}/a", json={"id": "b", "contents": "text"})

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "id"


def test_an_unknown_index_has_no_documents(client: TestClient) -> None:
    assert client.get("/v1/indexes/nosuch/documents").status_code == 404
    rows = {"documents": [{"id": "x", "contents": "a"}]}
    assert client.post("/v1/indexes/nosuch/documents", json=rows).status_code == 404
    assert client.get("/v1/indexes").json()["data"][0]["name"] == "main"
