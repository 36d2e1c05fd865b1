"""The service as a process: first start, disconnecting clients, and kills."""

import socket
from pathlib import Path

import httpx
import pytest

from services.retrieval.store.store import IndexStore
from tests.support.processes import Process, free_port, running_gateway
from tests.support.search.indexes import build_index, passage
from tests.support.search.service import ANSWER_SECONDS, Retrieval, running_retrieval
from tests.support.waiting import wait_for

PASSAGES = [passage("lists", "A list is sorted in place."), passage("files", "A file is closed.")]


def indexes_in(folder: Path) -> Path:
    build_index(IndexStore(folder / "indexes"), "main", PASSAGES)
    return folder / "indexes"


def pending(service: Retrieval) -> float:
    lines = service.http.get("/metrics").text.splitlines()
    (value,) = [line for line in lines if line.startswith("temper_retrieval_queries_under_way ")]
    return float(value.split()[1])


def test_the_first_start_builds_the_python_index(tmp_path: Path) -> None:
    with running_retrieval(tmp_path, tmp_path / "indexes", "python") as service:
        (hits,) = service.retrieve("sort a list in place", topk=3)

        assert len(hits) == 3
        assert service.http.get("/v1/indexes/python").json()["documents"] > 1000


def test_acknowledged_documents_survive_a_kill(tmp_path: Path) -> None:
    indexes = indexes_in(tmp_path)
    with running_retrieval(tmp_path, indexes, "main") as service:
        rows = [{"id": "x", "contents": "A tuple does not change."}]
        answer = service.http.post("/v1/indexes/main/documents", json={"documents": rows})
        assert answer.status_code == 200
        assert service.http.delete("/v1/indexes/main/documents/files").status_code == 200
        service.process.kill()

    with running_retrieval(tmp_path, indexes, "main") as service:
        assert service.found("tuple") == ["x"]
        assert service.found("file") == []


def test_a_missing_index_folder_is_refused_with_the_reason(tmp_path: Path) -> None:
    env = {"TEMPER_HOME": str(tmp_path), "TEMPER_RETRIEVAL_INDEX": str(tmp_path / "nowhere")}
    process = Process("services.retrieval", ["--port", str(free_port())], env, tmp_path / "log")

    assert wait_for(lambda: process.returncode, "it refuses") == 2
    assert "nowhere" in process.tail().splitlines()[-1]


def test_non_loopback_addresses_require_keys(tmp_path: Path) -> None:
    arguments = ["--host", "0.0.0.0", "--port", str(free_port())]
    process = Process(
        "services.retrieval", arguments, {"TEMPER_HOME": str(tmp_path)}, tmp_path / "log"
    )

    assert wait_for(lambda: process.returncode, "it refuses") == 2
    assert "needs API keys" in process.tail()


@pytest.mark.parametrize("sent", [b"", b'{"queries": ["list"'])
def test_a_client_that_disconnects_mid_request_leaves_nothing(tmp_path: Path, sent: bytes) -> None:
    with running_retrieval(tmp_path, indexes_in(tmp_path), "main") as service:
        host, port = service.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            head = "POST /retrieve HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
            connection.sendall(head.encode() + sent)

        assert service.found("list") == ["lists"]
        wait_for(lambda: pending(service) == 0, "its place is free")


def test_a_search_r1_rollout_batch_passes_through_the_gateway(tmp_path: Path) -> None:
    body = {"queries": ["list sorted", "file closed"] * 1280, "topk": 3, "return_scores": True}
    with running_retrieval(tmp_path, indexes_in(tmp_path), "main") as service:
        env = {"TEMPER_HOME": str(tmp_path / "gateway"), "TEMPER_RETRIEVAL_URL": service.url}
        with running_gateway(env, tmp_path / "gateway.log") as url:
            answer = httpx.post(f"{url}/retrieve", json=body, timeout=ANSWER_SECONDS)

    assert answer.status_code == 200, answer.text
    first = [hits[0]["document"]["id"] for hits in answer.json()["result"]]
    assert first == ["lists", "files"] * 1280
