"""Indexing jobs over REST. No worker runs them here."""

import uuid
from typing import Any

import httpx
import openai
import pytest


@pytest.fixture(scope="module")
def file_id(client: openai.OpenAI) -> str:
    row = b'{"id": "1", "contents": "A passage."}\n'
    return client.files.create(file=("corpus.jsonl", row), purpose="user_data").id


def create(http: httpx.Client, file_id: str, **fields: Any) -> dict[str, Any]:
    answer = http.post("/v1/indexing/jobs", json={"index": "wiki", "file": file_id, **fields})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_an_indexing_job_shows_its_request(http: httpx.Client, file_id: str) -> None:
    made = create(http, file_id, mode="hybrid", encoder="base", dense="flat", language=None)

    assert made["id"].startswith("idxjob-")
    assert (made["object"], made["status"]) == ("indexing.job", "validating_files")
    assert (made["index"], made["file"], made["mode"]) == ("wiki", file_id, "hybrid")
    assert (made["encoder"], made["dense"], made["language"]) == ("base", "flat", None)
    assert (made["version"], made["metrics"], made["error"]) == (None, None, None)
    shown = http.get(f"/v1/indexing/jobs/{made['id']}").json()
    assert shown | {"queue_reason": None} == made
    assert http.get(f"/v1/jobs/{made['id']}").json()["kind"] == "indexing"


def test_indexing_jobs_are_paged_and_filtered_by_metadata(http: httpx.Client, file_id: str) -> None:
    label = uuid.uuid4().hex
    ids = [create(http, file_id, metadata={"run": label})["id"] for _ in range(3)]

    page = http.get("/v1/indexing/jobs", params={"metadata[run]": label, "limit": 2}).json()

    assert [job["id"] for job in page["data"]] == ids[:0:-1]
    assert page["has_more"]


def test_a_queued_job_is_cancelled_immediately(http: httpx.Client, file_id: str) -> None:
    job_id = create(http, file_id)["id"]

    cancelled = http.post(f"/v1/indexing/jobs/{job_id}/cancel").json()
    events = http.get(f"/v1/indexing/jobs/{job_id}/events").json()["data"]

    assert cancelled["status"] == "cancelled"
    assert events[0]["message"] == "Cancelled before it ran"


def test_a_file_in_use_by_a_job_cannot_be_deleted(
    http: httpx.Client, client: openai.OpenAI
) -> None:
    file_id = client.files.create(file=("corpus.jsonl", b"{}\n"), purpose="user_data").id
    job_id = create(http, file_id)["id"]

    refused = http.delete(f"/v1/files/{file_id}")
    http.post(f"/v1/indexing/jobs/{job_id}/cancel")

    assert refused.status_code == 409
    assert job_id in refused.json()["error"]["message"]
    assert http.delete(f"/v1/files/{file_id}").status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"index": "../etc"}, "index"),
        ({"index": "Wiki"}, "index"),
        ({"file": "file-absent"}, "file"),
        ({"mode": "magic"}, "mode"),
        ({"mode": "dense", "encoder": "absent"}, "encoder"),
        ({"mode": "dense", "encoder": "/etc"}, "encoder"),
        ({"mode": "dense", "encoder": "https://example.com/model"}, "encoder"),
        ({"encoder": "base"}, "encoder"),
        ({"mode": "dense", "dense": "kd-tree"}, "dense"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_invalid_indexing_requests_are_rejected_by_field(
    http: httpx.Client, file_id: str, fields: dict[str, Any], param: str
) -> None:
    body = {"index": "wiki", "file": file_id, **fields}

    answer = http.post("/v1/indexing/jobs", json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
