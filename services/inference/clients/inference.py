"""Chat completions from an OpenAI-compatible server."""

from types import TracebackType
from typing import Self

from services.inference.clients.chat import (
    ChatCompletion,
    ChatRequest,
    TokenUsage,
    ToolCall,
    read_completion,
)
from services.inference.clients.model_server import InferenceError, ModelServer, model_retries
from services.inference.clients.retries import Retries

__all__ = [
    "ChatCompletion",
    "ChatRequest",
    "InferenceClient",
    "InferenceError",
    "TokenUsage",
    "ToolCall",
    "model_retries",
]


class InferenceClient:
    """Asks one server, at most ``max_connections`` at once; ``timeout`` is that of one attempt.

    ``base_url`` goes up to and including /v1. Use it as an async context manager.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        timeout: float,
        *,
        retries: Retries | None = None,
        max_connections: int = 1024,
    ) -> None:
        self._server = ModelServer(
            base_url, api_key, timeout, retries=retries, max_connections=max_connections
        )

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._server.__aexit__(kind, error, trace)

    async def chat(self, request: ChatRequest) -> ChatCompletion:
        """Ask until it is answered or retrying has no point; raises `InferenceError`."""
        payload = request.model_dump(mode="json", exclude_none=True)
        answer = await self._server.post("/chat/completions", payload, read_completion)
        return ChatCompletion.of(answer.value, answer.seconds, answer.attempts)
