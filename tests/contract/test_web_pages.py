"""A gateway without keys rejects requests that foreign web pages make a browser send."""

import httpx
import pytest


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Origin": "https://evil.example"}, "foreign_origin"),
        ({"Origin": "null"}, "foreign_origin"),
        ({"Origin": "http://localhost:1"}, "foreign_origin"),
        ({"Host": "rebound.evil.example:8080"}, "unknown_host"),
        ({"Host": "127.0.0.1.nip.example"}, "unknown_host"),
    ],
)
def test_without_keys_foreign_web_pages_are_rejected(
    http: httpx.Client, headers: dict[str, str], code: str
) -> None:
    form = {"files": {"file": ("a", b"x")}, "data": {"purpose": "evals"}}
    before = len(http.get("/v1/files").json()["data"])

    answer = http.post("/v1/files", **form, headers=headers)  # type: ignore[arg-type]  # the mapping's values are of several types

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, code)
    assert answer.headers["x-request-id"]
    assert len(http.get("/v1/files").json()["data"]) == before


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1", "[::1]:8080", "api:8080", "10.1.2.3:80"]
)
def test_without_keys_addresses_and_plain_host_names_are_accepted(
    http: httpx.Client, host: str
) -> None:
    for headers in ({"Host": host}, {"Host": host, "Origin": f"http://{host}"}):
        assert http.get("/v1/jobs", headers=headers).status_code == 200
