"""Indexes are opened on demand, and their newest good version is served."""

import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from services.contracts.errors import ConfigurationError
from services.retrieval.store import integrity
from services.retrieval.store.layout import IndexFolder, write_atomically
from services.retrieval.store.store import IndexStore
from tests.support.search.indexes import build_index, passage
from tests.support.waiting import wait_for
from tests.unit.retrieval.service.conftest import Serve

NEW = [passage("new", "A list of the new version.")]


def found(client: TestClient, index: str | None = None) -> list[str] | int:
    answer = client.post("/v1/search", json={"query": "list", "index": index})
    if answer.status_code != 200:
        return answer.status_code
    return [hit["document"]["id"] for hit in answer.json()["results"][0]]


def scramble_words(indexes: IndexStore) -> None:
    """Damage the served version in a file that tantivy reads without complaint."""
    version = indexes.version("main")
    (words,) = (indexes.root / "main" / str(version) / "text").glob("*.fieldnorm")
    content = words.read_bytes()
    words.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def summary(client: TestClient, name: str = "main") -> dict[str, object]:
    return dict(client.get(f"/v1/indexes/{name}").json())


def test_indexes_are_listed_by_name(client: TestClient, indexes: IndexStore) -> None:
    build_index(indexes, "another", NEW)

    listed = client.get("/v1/indexes").json()["data"]

    assert [(index["name"], index["documents"]) for index in listed] == [
        ("another", 1),
        ("main", 4),
    ]
    assert listed[1] == summary(client)
    assert listed[1]["problem"] is None


def test_a_new_version_is_served_without_a_restart(client: TestClient, indexes: IndexStore) -> None:
    assert found(client) == ["lists"]

    version = build_index(indexes, "main", NEW)

    wait_for(lambda: found(client) == ["new"], "the new version answers")
    assert summary(client)["version"] == version


def test_a_broken_version_leaves_the_last_good_one_served(
    client: TestClient, indexes: IndexStore
) -> None:
    build_index(indexes, "main", NEW)
    wait_for(lambda: found(client) == ["new"], "the new version answers")
    folder = IndexFolder(indexes.root / "main")
    version = folder.next_version
    shutil.copytree(folder.version(str(folder.served)).path, folder.version(version).path)
    folder.version(version).manifest.write_text("{")
    write_atomically(folder.current, version.encode())  # it is never served before it is broken

    problem = wait_for(lambda: summary(client)["problem"], "the problem is told", 60)

    assert "manifest.json" in str(problem)
    assert found(client) == ["new"]
    assert client.get("/readyz").status_code == 200


def test_damage_found_in_background_falls_back_to_the_last_good_version(
    serve: Serve, indexes: IndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity, "CHECKED_AT_OPEN", -1)  # as for files of gigabytes
    build_index(indexes, "main", NEW)
    scramble_words(indexes)
    client = serve()

    wait_for(lambda: found(client) == ["lists"], "the last good version")
    assert "checksum mismatch" in str(summary(client)["problem"])


def test_damage_without_a_good_version_is_an_error_with_the_reason(
    serve: Serve, indexes: IndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(integrity, "CHECKED_AT_OPEN", -1)
    scramble_words(indexes)
    client = serve()

    wait_for(lambda: found(client) == 503, "the damage is found")
    answer = client.post("/v1/search", json={"query": "list"})
    assert answer.json()["error"]["code"] == "index_unusable"
    assert "checksum mismatch" in answer.json()["error"]["message"]


def test_damage_found_by_a_search_falls_back_to_the_last_good_version(
    serve: Serve, indexes: IndexStore
) -> None:
    version = build_index(indexes, "main", NEW)
    client = serve()
    assert found(client) == ["new"]

    with open(indexes.root / "main" / version / "passages" / "places", "r+b") as file:
        file.write(bytes(16))

    assert client.post("/v1/search", json={"query": "version"}).status_code == 503
    wait_for(lambda: found(client) == ["lists"], "the last good version")


def test_a_dropped_index_is_gone(client: TestClient, indexes: IndexStore) -> None:
    build_index(indexes, "other", NEW)
    assert found(client, "other") == ["new"]

    answer = client.delete("/v1/indexes/other")

    assert answer.json() == {"id": "other", "object": "index", "deleted": True}
    assert found(client, "other") == 404
    assert client.delete("/v1/indexes/other").status_code == 404
    assert not (indexes.root / "other").exists()


def test_deleting_the_default_index_leaves_the_others_ready(
    client: TestClient, indexes: IndexStore
) -> None:
    build_index(indexes, "other", NEW)

    assert client.delete("/v1/indexes/main").status_code == 200

    assert client.get("/readyz").status_code == 200
    assert found(client) == 404
    assert found(client, "other") == ["new"]
    build_index(indexes, "main", NEW)
    wait_for(lambda: found(client) == ["new"], "the new default index answers")


def test_a_restart_does_not_miss_a_deleted_default_index(serve: Serve, indexes: IndexStore) -> None:
    build_index(indexes, "other", NEW)
    assert serve().delete("/v1/indexes/main").status_code == 200

    restarted = serve()

    assert restarted.get("/readyz").status_code == 200
    assert found(restarted) == 404
    assert found(restarted, "other") == ["new"]
    build_index(indexes, "main", NEW)
    wait_for(lambda: found(restarted) == ["new"], "the new default index answers")
    indexes.drop("main")
    build_index(indexes, "main", NEW)
    shutil.rmtree(IndexFolder(indexes.root / "main").version(indexes.version("main") or "").text)
    assert serve().get("/readyz").status_code == 503


def test_a_recreated_index_serves_its_new_content(client: TestClient, indexes: IndexStore) -> None:
    build_index(indexes, "other", [passage("old", "A list of the old index.")])
    assert found(client, "other") == ["old"]

    indexes.drop("other")
    build_index(indexes, "other", NEW)

    wait_for(lambda: found(client, "other") == ["new"], "the new index answers")


def test_an_index_being_built_cannot_be_dropped(
    client: TestClient, indexes: IndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.retrieval.engine.catalog.LOCK_SECONDS", 0.1)
    with indexes.writing("main", timeout=5):
        assert client.delete("/v1/indexes/main").status_code == 409

    assert found(client) == ["lists"]


def test_a_service_becomes_ready_once_its_index_exists(serve: Serve, indexes: IndexStore) -> None:
    client = serve(retrieval_index="later")
    assert client.get("/readyz").status_code == 503
    assert found(client) == 404

    build_index(indexes, "later", NEW)

    wait_for(lambda: client.get("/readyz").status_code == 200, "it is ready")
    assert found(client) == ["new"]


def test_an_unopenable_index_reports_why(client: TestClient, indexes: IndexStore) -> None:
    version = build_index(indexes, "bad", NEW)
    shutil.rmtree(IndexFolder(indexes.root / "bad").version(version).text)

    answer = client.post("/v1/search", json={"query": "list", "index": "bad"})

    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "index_unusable"
    said = answer.json()["error"]["message"]
    assert "text" in said
    assert summary(client, "bad")["problem"] == said
    assert [index["name"] for index in client.get("/v1/indexes").json()["data"]] == ["bad", "main"]
    assert found(client) == ["lists"]


def test_the_default_index_may_be_given_by_its_folder(serve: Serve, tmp_path: Path) -> None:
    elsewhere = IndexStore(tmp_path / "elsewhere")
    build_index(elsewhere, "moved", NEW)

    client = serve(retrieval_index=str(elsewhere.root / "moved"))

    assert found(client) == ["new"]
    assert found(client, "moved") == ["new"]
    assert found(client, "main") == ["lists"]
    names = [index["name"] for index in client.get("/v1/indexes").json()["data"]]
    assert sorted(names) == ["main", "moved"]


def test_an_invalid_default_index_is_refused(serve: Serve, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        serve(retrieval_index=str(tmp_path / "nowhere"))
