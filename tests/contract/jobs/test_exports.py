"""POST /v1/models/{id}/export and /v1/exports, as clients see them."""

from collections.abc import Iterator

import httpx
import pytest


@pytest.fixture
def http(url: str) -> Iterator[httpx.Client]:
    """A client of a gateway whose operator allows /srv/exports and hf://team."""
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client


def test_an_export_is_queued_shown_and_cancelled(http: httpx.Client) -> None:
    made = http.post("/v1/models/base/export", json={"destination": "/srv/exports/a/"}).json()

    assert made["id"].startswith("export-")
    assert (made["object"], made["model"]) == ("model.export", "base")
    assert (made["destination"], made["files"]) == ("file:///srv/exports/a", None)
    assert http.get(f"/v1/jobs/{made['id']}").json()["kind"] == "export"
    assert http.post(f"/v1/exports/{made['id']}/cancel").json()["status"] == "cancelled"


@pytest.mark.parametrize(
    "destination",
    [
        "/srv/other",
        "/srv/exports-of-others/a",
        "hf://others/x",
        "s3://bucket/x",
    ],
)
def test_only_destinations_that_the_operator_allows_are_accepted(
    http: httpx.Client, destination: str
) -> None:
    answer = http.post("/v1/models/base/export", json={"destination": destination})

    assert answer.status_code == 403, answer.text
    assert answer.json()["error"]["param"] == "destination"
    assert "TEMPER_EXPORT_DESTINATIONS" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "destination",
    [
        "/srv/exports/../other",
        "srv/exports",
        "file://srv/exports",
        "hf://team",
        "hf://team/x/y",
        "s3://key:secret@bucket/x?endpoint=http://host",
        "simplecache::file:///srv/exports/x",
        "",
    ],
)
def test_destinations_with_credentials_options_or_parent_folders_are_rejected(
    http: httpx.Client, destination: str
) -> None:
    answer = http.post("/v1/models/base/export", json={"destination": destination})

    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == "destination"


def test_a_model_that_is_only_on_a_hub_is_not_exported(http: httpx.Client) -> None:
    http.post("/v1/models", json={"id": "far", "hub_id": "lab/far"})

    refused = http.post("/v1/models/far/export", json={"destination": "hf://team/far"})
    unknown = http.post("/v1/models/nobody/export", json={"destination": "hf://team/far"})
    http.delete("/v1/models/far")

    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "nothing_to_export")
    assert unknown.status_code == 404
