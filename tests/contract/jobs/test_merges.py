"""POST /v1/models/{id}/merge and /v1/merges, as clients see them."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from services.campaigns.gateway import Gateway
from services.campaigns.settings import CampaignSettings
from services.campaigns.steps.running import merge_path


@pytest.fixture
def http(url: str, home: Path) -> Iterator[httpx.Client]:
    """A client of a gateway that knows the adapter ``tiny/adapter``; no worker merges here."""
    folder = home / "models" / "mergeable"
    folder.mkdir(exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"}))
    (folder / "adapter_model.safetensors").touch()
    with httpx.Client(base_url=url, timeout=60) as client:
        model = {"id": "tiny/adapter", "folder": "mergeable", "base": "base"}
        assert client.post("/v1/models", json=model).status_code in {200, 409}
        yield client


def test_a_merge_is_queued_shown_and_cancelled(http: httpx.Client) -> None:
    made = http.post("/v1/models/tiny/adapter/merge", json={"suffix": "v2"}).json()

    assert made["id"].startswith("merge-")
    assert (made["object"], made["model"]) == ("model.merge", "tiny/adapter")
    assert made["merged_model"] is None
    assert http.get(f"/v1/jobs/{made['id']}").json()["kind"] == "merge"
    assert http.delete("/v1/models/tiny/adapter").json()["error"]["code"] == "model_in_use"
    assert http.post(f"/v1/merges/{made['id']}/cancel").json()["status"] == "cancelled"
    assert http.get(f"/v1/merges/{made['id']}").json()["status"] == "cancelled"


def test_a_model_without_anything_to_merge_is_refused(http: httpx.Client) -> None:
    refused = http.post("/v1/models/base/merge", json={})
    unknown = http.post("/v1/models/nobody/merge", json={})
    typo = http.post("/v1/models/tiny/adapter/merge", json={"sufix": "v2"})

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "nothing_to_merge")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
    assert (typo.status_code, typo.json()["error"]["param"]) == (400, "sufix")


def test_an_idempotency_key_is_for_one_model(http: httpx.Client) -> None:
    key = {"Idempotency-Key": "merge-once"}
    first = http.post("/v1/models/tiny/adapter/merge", json={}, headers=key).json()
    again = http.post("/v1/models/tiny/adapter/merge", json={}, headers=key).json()
    other = http.post("/v1/models/base/merge", json={}, headers=key)
    http.post(f"/v1/merges/{first['id']}/cancel")

    assert again["id"] == first["id"]
    assert other.status_code == 409


def test_a_campaign_may_request_the_merge_of_its_base_model(
    http: httpx.Client, url: str, tmp_path: Path
) -> None:
    gateway = Gateway(CampaignSettings(home=tmp_path, gateway_url=url))
    body = {"priority": 3, "metadata": {"campaign": "campaign-1", "loop": "2"}}

    merge = asyncio.run(gateway.create(merge_path("tiny/adapter"), body, "campaign/merge"))

    made = http.get(f"/v1/merges/{merge}").json()
    assert (made["model"], made["metadata"]) == ("tiny/adapter", body["metadata"])
    http.post(f"/v1/merges/{merge}/cancel")
