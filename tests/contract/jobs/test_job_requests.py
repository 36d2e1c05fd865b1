"""The request of a job can be submitted again. No worker runs these jobs."""

import json
from typing import Any

import httpx
import openai
import pytest

CHAT = {"messages": [{"role": "user", "content": "1+1="}, {"role": "assistant", "content": "2"}]}
ASK = {
    "custom_id": "a",
    "method": "POST",
    "url": "/v1/chat/completions",
    "body": {"model": "base", "messages": CHAT["messages"][:1]},
}
JOBS: dict[str, tuple[str, str, dict[str, Any], dict[str, Any]]] = {
    "fine_tuning": ("/v1/fine_tuning/jobs", "training_file", CHAT, {"model": "base", "seed": 7}),
    "evaluation": (
        "/v1/evaluations",
        "file",
        {"prompt": "1+1=", "gold": "2"},
        {"model": "base", "benchmark": "gsm8k", "metadata": {"team": "blue"}},
    ),
    "rollout": ("/v1/rollouts", "file", {"question": "1+1=", "gold": "2"}, {"model": "base"}),
    "indexing": ("/v1/indexing/jobs", "file", {"id": "1", "contents": "Text."}, {"index": "wiki"}),
    "batch": (
        "/v1/batches",
        "input_file_id",
        ASK,
        {"endpoint": "/v1/chat/completions", "completion_window": "24h"},
    ),
}
PURPOSES = {"fine_tuning": "fine-tune", "batch": "batch", "indexing": "user_data"}


@pytest.mark.parametrize("kind", JOBS)
def test_the_request_of_a_job_can_be_submitted_again(
    http: httpx.Client, client: openai.OpenAI, kind: str
) -> None:
    path, field, row, fields = JOBS[kind]
    rows = (json.dumps(row) + "\n").encode() * 10
    purpose: Any = PURPOSES.get(kind, "evals")
    file = client.files.create(file=("rows.jsonl", rows), purpose=purpose).id
    first = http.post(path, json={field: file, **fields})
    assert first.status_code == 200, first.text

    made = http.get(f"/v1/jobs/{first.json()['id']}/request").json()
    assert made["path"] == path
    assert made["body"][field] == file
    assert {name: made["body"][name] for name in fields} == fields
    second = http.post(made["path"], json=made["body"])
    assert second.status_code == 200, second.text

    again = http.get(f"/v1/jobs/{second.json()['id']}/request").json()
    assert again == made
    if isinstance(model := made["body"].get("model"), str):
        listed = {
            each["id"] for each in http.get("/v1/jobs", params={"model": model}).json()["data"]
        }
        assert {first.json()["id"], second.json()["id"]} <= listed
        assert http.get("/v1/jobs", params={"model": f"{model}-2"}).json()["data"] == []


def test_an_unknown_job_has_no_request(http: httpx.Client) -> None:
    assert http.get("/v1/jobs/eval-unknown/request").status_code == 404
