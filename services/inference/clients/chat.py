"""Chat completions from an OpenAI-compatible server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.contracts.base import JsonObject
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
class TokenUsage:
    """Tokens the server counted."""

    prompt: int
    completion: int


@dataclass(frozen=True)
class ToolCall:
    """A function call; ``arguments`` is the model's text, possibly invalid JSON."""

    id: str
    name: str
    arguments: str


class _Usage(BaseModel):
    prompt_tokens: int
    completion_tokens: int = 0


class _Function(BaseModel):
    name: str
    arguments: str


class _ToolCall(BaseModel):
    id: str
    function: _Function


class _Message(BaseModel):
    content: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class Completion(BaseModel):
    """The fields of an answer that are used here."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


@dataclass(frozen=True)
class ChatCompletion:
    """The first choice of an answer.

    ``latency_seconds`` is that of the successful attempt, the ``attempts``-th.
    """

    content: str | None
    finish_reason: str | None
    usage: TokenUsage | None
    tool_calls: tuple[ToolCall, ...]
    latency_seconds: float
    attempts: int

    @classmethod
    def of(cls, body: Completion, latency_seconds: float, attempts: int) -> "ChatCompletion":
        """Take the fields from an answer's body."""
        choice, usage = body.choices[0], body.usage
        calls = choice.message.tool_calls or []
        return cls(
            content=choice.message.content,
            finish_reason=choice.finish_reason,
            usage=TokenUsage(usage.prompt_tokens, usage.completion_tokens) if usage else None,
            tool_calls=tuple(
                ToolCall(each.id, each.function.name, each.function.arguments) for each in calls
            ),
            latency_seconds=latency_seconds,
            attempts=attempts,
        )


def read_completion(answer: bytes) -> Completion:
    """Read the body of an answer; raises `ValueError` saying what is wrong with it."""
    try:
        return Completion.model_validate_json(answer)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        raise ValueError(f"{where}: {first['msg']}") from error


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

        def read(body: bytes) -> Completion:
            completion = read_completion(body)
            if keep is not None:
                keep(body)
            return completion

        payload = request.model_dump(mode="json", exclude_none=True)
        answer = await self.post(payload, read, "/chat/completions")
        return ChatCompletion.of(answer.value, answer.seconds, answer.attempts)
