"""/v1/datasets, as clients see it."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.models.word_tokenizer import write_word_tokenizer

CAMPAIGN = {
    "base_model": "base",
    "scenario": "Add.",
    "llm": {"base_url": "http://127.0.0.1:9/v1", "model": "m"},
}


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client


def upload(http: httpx.Client, rows: list[object]) -> str:
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    files = {"file": ("rows.jsonl", content)}
    answer = http.post("/v1/files", files=files, data={"purpose": "user_data"})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def test_a_data_set_is_registered_shown_listed_and_unregistered(http: httpx.Client) -> None:
    file = upload(http, [{"q": "1 + 1?", "a": "2"}, {"q": "2 + 2?", "a": None}])
    body = {"name": "sums", "file": file, "description": "Sums.", "license": "mit"}
    key = {"Idempotency-Key": "data-set-once"}

    made = http.post("/v1/datasets", json=body, headers=key).json()
    again = http.post("/v1/datasets", json=body, headers=key).json()
    taken = http.post("/v1/datasets", json=body)

    assert made == again
    assert (made["id"], made["license"], made["file"]) == ("sums", "mit", file)
    statistics = made["statistics"]
    assert statistics["rows"] == 2
    assert statistics["fields"][1] == {"name": "a", "types": ["null", "string"], "filled": 1}
    assert statistics["samples"][0] == {"q": "1 + 1?", "a": "2"}
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "dataset_exists")
    assert http.get("/v1/datasets/sums").json() == made
    assert made in http.get("/v1/datasets").json()["data"]
    assert http.delete(f"/v1/files/{file}").json()["error"]["code"] == "file_in_use"
    assert http.delete("/v1/datasets/sums").json()["deleted"] is True
    assert http.get("/v1/datasets/sums").status_code == 404
    assert http.delete(f"/v1/files/{file}").status_code == 200


def test_tokens_are_counted_by_the_tokenizer_of_a_model(http: httpx.Client, home: Path) -> None:
    file = upload(http, [{"q": "one two three", "a": "four"}, {"q": "one", "a": None}])
    http.post("/v1/datasets", json={"name": "counted", "file": file})
    for name in ("words", "mute"):
        folder = home / "models" / name
        if name == "words":
            write_word_tokenizer(folder)
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text('{"model_type": "stub"}')
        (folder / "model.safetensors").touch()
        assert http.post("/v1/models", json={"id": name, "folder": name}).status_code == 200

    def tokens(model: str) -> dict[str, object]:
        answer = http.get("/v1/datasets/counted", params={"model": model}).json()
        return dict(answer["statistics"]["tokens"])

    counted, estimated = tokens("words"), tokens("mute")

    assert (counted["total"], counted["model"], counted["not_counted"]) == (5, "words", None)
    assert (estimated["total"], estimated["model"]) == (5 + 1, None)
    assert estimated["not_counted"] == "'mute' has no tokenizer.json"
    assert http.get("/v1/datasets/counted", params={"model": "nobody"}).status_code == 404


def test_unusable_rows_are_rejected(http: httpx.Client) -> None:
    file = upload(http, [{"q": 1}, [2]])

    refused = http.post("/v1/datasets", json={"name": "bad", "file": file})

    assert refused.status_code == 400
    assert "row 2" in refused.json()["error"]["message"]


def test_a_campaign_with_an_unknown_data_set_is_refused(http: httpx.Client) -> None:
    file = upload(http, [{"prompt": "1 + 1?", "gold": "2"}])

    body = {**CAMPAIGN, "file": file, "datasets": [{"name": "nobody"}]}
    refused = http.post("/v1/campaigns", json=body)

    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "datasets[0].name"
