"""A creating request that is repeated under its key creates once and gets the first response."""

import uuid
from typing import Any

import httpx
import pytest

from tests.support.gateway import GatewayClient

BODIES: dict[str, dict[str, Any]] = {
    "/v1/webhooks": {"url": "https://example.com/hook", "events": ["job.failed"]},
    "/v1/uploads": {
        "filename": "a.jsonl",
        "purpose": "fine-tune",
        "bytes": 10,
        "mime_type": "text/plain",
    },
}


@pytest.mark.parametrize("path", BODIES)
def test_a_repeated_request_creates_once(url: str, path: str) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}

    first, again, other = (
        httpx.post(url + path, json=BODIES[path], headers=headers, timeout=60)
        for headers in (key, key, {})
    )

    assert first.status_code == again.status_code == other.status_code == 200
    assert again.json() == first.json()
    assert other.json()["id"] != first.json()["id"]


def test_a_repeated_action_gets_the_first_answer(each_database: GatewayClient) -> None:
    job = each_database.submit("succeed")
    for action in ("pause", "resume", "cancel"):
        key = {"Idempotency-Key": uuid.uuid4().hex}
        path = f"/v1/jobs/{job}/{action}"

        first, again = (each_database.http.post(path, headers=key) for _ in range(2))

        assert first.status_code == again.status_code == 200, first.text
        assert again.json() == first.json()
