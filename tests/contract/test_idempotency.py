"""Identical concurrent requests take effect once, on every database."""

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.gateway import GatewayClient

TIMES = 8


def send_concurrently(send: Callable[[], httpx.Response]) -> list[httpx.Response]:
    with ThreadPoolExecutor(TIMES) as pool:
        return list(pool.map(lambda _: send(), range(TIMES)))


@pytest.fixture(scope="module")
def file_id(each_database: GatewayClient) -> str:
    """A training file, uploaded by eight concurrent requests."""
    each_database.submit("succeed")  # registers the model
    answers = send_concurrently(lambda: upload(each_database, "the-first-upload"))
    assert [answer.status_code for answer in answers] == [200] * TIMES
    ids = {answer.json()["id"] for answer in answers}
    assert len(ids) == 1
    return str(ids.pop())


def upload(gateway: GatewayClient, key: str) -> httpx.Response:
    return gateway.http.post(
        "/v1/files",
        files={"file": ("rows.jsonl", b"{}")},
        data={"purpose": "fine-tune"},
        headers={"Idempotency-Key": key},
    )


def test_concurrent_equal_uploads_make_one_file(
    each_database: GatewayClient, each_folder: Path, file_id: str
) -> None:
    listed = each_database.http.get("/v1/files").json()["data"]

    assert file_id in [file["id"] for file in listed]
    stored = [path.name for path in (each_folder / "home" / "files").iterdir()]
    assert sorted(stored) == sorted(file["id"] for file in listed)
    assert each_database.http.get(f"/v1/files/{file_id}/content").content == b"{}"


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/fine_tuning/jobs", "training_file"), ("/v1/evaluations", "file")]
)
def test_concurrent_equal_creates_make_one_job(
    each_database: GatewayClient, file_id: str, path: str, field: str
) -> None:
    label = uuid.uuid4().hex
    body = {"model": "base", field: file_id, "metadata": {"suite": label}}
    key = {"Idempotency-Key": uuid.uuid4().hex}

    answers = send_concurrently(lambda: each_database.http.post(path, json=body, headers=key))

    assert [answer.status_code for answer in answers] == [200] * TIMES
    made = each_database.http.get("/v1/jobs", params={"metadata[suite]": label}).json()["data"]
    assert {answer.json()["id"] for answer in answers} == {job["id"] for job in made}
    assert len(made) == 1


def test_concurrent_registrations_without_a_key_make_one_model(
    each_database: GatewayClient,
) -> None:
    name = f"owner/{uuid.uuid4().hex}"
    body = {"id": name, "hub_id": name}

    answers = send_concurrently(lambda: each_database.http.post("/v1/models", json=body))

    assert sorted(answer.status_code for answer in answers) == [200] + [409] * (TIMES - 1)


def test_concurrent_equal_grants_make_one_permission(each_database: GatewayClient) -> None:
    name = f"owner/{uuid.uuid4().hex}"
    each_database.http.post("/v1/models", json={"id": name, "hub_id": name})
    path = f"/v1/fine_tuning/checkpoints/{name}/permissions"
    body = {"project_ids": ["proj_a", "proj_b"]}

    answers = send_concurrently(lambda: each_database.http.post(path, json=body))

    assert [answer.status_code for answer in answers] == [200] * TIMES
    granted = each_database.http.get(path).json()["data"]
    assert sorted(each["project_id"] for each in granted) == ["proj_a", "proj_b"]
