"""Chat completions from an OpenAI-compatible server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.base import JsonObject
from services.inference.chat_answers import ChatAnswer, TokenUsage, ToolCall, read_chat
from services.inference.clients.json_service import JsonService
from services.inference.clients.retries import Retries, model_retries

LARGEST_ANSWER = 32 * 2**20
"""Bytes."""


class ChatRequest(BaseModel):
    """A request in OpenAI's shape; None leaves a field to the server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    messages: list[JsonObject] = Field(min_length=1)
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = Field(default=None, description="vLLM's own field, as min_p is.")
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = Field(default=None, description="vLLM's own field.")
    stop: list[str] | None = None
    stop_token_ids: list[int] | None = Field(default=None, description="vLLM's own field.")
    seed: int | None = None
    chat_template_kwargs: JsonObject | None = Field(default=None, description="vLLM's own field.")
    tools: list[JsonObject] | None = None
    response_format: JsonObject | None = None


@dataclass(frozen=True)
class ChatCompletion:
    """The first choice of an answer.

    ``latency_seconds`` is that of the successful attempt, the ``attempts``-th; ``unreadable`` of
    those before it got an answer that could not be read.
    """

    content: str | None
    finish_reason: str | None
    usage: TokenUsage | None
    tool_calls: tuple[ToolCall, ...]
    latency_seconds: float
    attempts: int
    unreadable: int = 0

    @classmethod
    def of(
        cls, answer: ChatAnswer, latency_seconds: float, attempts: int, unreadable: int = 0
    ) -> "ChatCompletion":
        """Take the first choice of an answer."""
        choice = answer.choices[0]
        return cls(
            content=choice.content,
            finish_reason=choice.finish_reason,
            usage=answer.usage,
            tool_calls=choice.tool_calls,
            latency_seconds=latency_seconds,
            attempts=attempts,
            unreadable=unreadable,
        )


class InferenceClient(JsonService):
    """A client of one server with at most ``max_connections``; ``timeout`` applies per attempt.

    ``base_url`` includes /v1. Use it as an async context manager.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        timeout: float,
        *,
        retries: Retries | None = None,
        max_connections: int = 1024,
        adapts: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            base_url.rstrip("/"),
            api_key,
            timeout=timeout,
            retries=retries or model_retries(),
            connections=max_connections,
            largest_answer=LARGEST_ANSWER,
            adapts=adapts,
            headers=headers,
        )

    async def chat(
        self, request: ChatRequest, *, keep: Callable[[bytes], None] | None = None
    ) -> ChatCompletion:
        """Ask for one completion; raises `ServiceFailed`.

        ``keep`` is called with the body of a completion as soon as it arrives.
        """

        def read(body: bytes) -> ChatAnswer:
            answer = read_chat(body)
            if keep is not None:
                keep(body)
            return answer

        payload = request.model_dump(mode="json", exclude_none=True)
        answer = await self.post(payload, read, "/chat/completions")
        return ChatCompletion.of(answer.value, answer.seconds, answer.attempts, answer.unreadable)
