"""Without keys, what a stranger's web page makes a browser send is refused."""

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
def test_without_keys_a_web_page_of_a_stranger_can_do_nothing(
    http: httpx.Client, headers: dict[str, str], code: str
) -> None:
    form = {"files": {"file": ("a", b"x")}, "data": {"purpose": "evals"}}
    before = len(http.get("/v1/files").json()["data"])

    answer = http.post("/v1/files", **form, headers=headers)  # type: ignore[arg-type]

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, code)
    assert answer.headers["x-request-id"]
    assert len(http.get("/v1/files").json()["data"]) == before


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8080", "127.0.0.1", "[::1]:8080", "api:8080", "10.1.2.3:80"]
)
def test_without_keys_addresses_and_plain_names_work(http: httpx.Client, host: str) -> None:
    for headers in ({"Host": host}, {"Host": host, "Origin": f"http://{host}"}):
        assert http.get("/v1/jobs", headers=headers).status_code == 200
