"""Access to a server whose weights can be replaced."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest

from services.inference.vllm.guard import Guard, Receive, Scope, Send

KEY = b"Bearer the-key"


def statuses(monkeypatch: pytest.MonkeyPatch, scope: Scope) -> list[object]:
    """The statuses sent: the application's 200 or a refusal."""
    monkeypatch.setenv("VLLM_API_KEY", "the-key")
    sent: list[object] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message.get("status", message.get("code")))

    asyncio.run(Guard(application)(scope, receive, send))
    return [status for status in sent if status is not None]


def request(path: str, *keys: bytes) -> Scope:
    return {"type": "http", "path": path, "headers": [(b"authorization", key) for key in keys]}


@pytest.mark.parametrize("path", ["/collective_rpc", "/v1/models", "/metrics", "/health/x", ""])
def test_every_route_requires_the_api_key(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    assert statuses(monkeypatch, request(path, KEY)) == [200]
    for keys in ([], [b"Bearer another"], [b"the-key"], [b""], [b"Bearer \xff"]):
        assert statuses(monkeypatch, request(path, *keys)) == [401]


def test_health_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statuses(monkeypatch, request("/health")) == [200]


def test_websockets_require_the_api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = {**request("/v1/realtime"), "type": "websocket"}

    assert statuses(monkeypatch, scope) == [1008]


def test_lifespan_events_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    assert statuses(monkeypatch, {"type": "lifespan"}) == [200]
