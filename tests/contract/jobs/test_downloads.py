"""POST /v1/models/{id}/download and /v1/downloads, as clients see them."""

from collections.abc import Iterator

import httpx
import pytest


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    """A client of a gateway that knows a model of a hub; no worker downloads here."""
    with httpx.Client(base_url=url, timeout=60) as client:
        model = {"id": "lab/far", "hub_id": "lab/far"}
        assert client.post("/v1/models", json=model).status_code in {200, 409}
        yield client


def test_a_download_is_queued_shown_and_cancelled(http: httpx.Client) -> None:
    made = http.post("/v1/models/lab/far/download", json={}).json()

    assert made["id"].startswith("download-")
    assert (made["object"], made["model"]) == ("model.download", "lab/far")
    assert (made["download"], made["bytes"], made["commit"]) == (None, None, None)
    listed = http.get(f"/v1/jobs/{made['id']}").json()
    assert (listed["kind"], listed["name"]) == ("download", "download of far")
    assert http.delete("/v1/models/lab/far").json()["error"]["code"] == "model_in_use"
    assert http.post(f"/v1/downloads/{made['id']}/cancel").json()["status"] == "cancelled"


def test_a_model_whose_files_are_here_has_nothing_to_download(http: httpx.Client) -> None:
    refused = http.post("/v1/models/base/download", json={})
    unknown = http.post("/v1/models/nobody/download", json={})

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "nothing_to_download")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
