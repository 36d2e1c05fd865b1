"""Middleware of vLLM's API server that requires the API key on every route but /health.

vLLM 0.32 itself checks it only below /v1, /v2, /inference and /cohere: the development routes,
which load weights from any folder and call any worker method, would be open to every process on
the host. This module imports the standard library only.
"""

import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

OPEN = "/health"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Guard:
    """Return 401 unless the request carries VLLM_API_KEY as a bearer token."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._expected = f"Bearer {os.environ['VLLM_API_KEY']}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan" or scope["path"] == OPEN or self._knows_key(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _knows_key(self, scope: Scope) -> bool:
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        return any(hmac.compare_digest(value, self._expected) for value in sent)
