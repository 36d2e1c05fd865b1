"""Chat completions as a stream of text."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence

import httpx
from httpx_sse import EventSource, SSEError
from pydantic import BaseModel, Field, ValidationError

from services.contracts.base import JsonObject
from temper.client.errors import ApiError, UnexpectedAnswer
from temper.client.transport import Transport, pause_before

PATH = "/v1/chat/completions"
DONE = "[DONE]"
NOT_READY = "model_not_ready"
SILENCE_LIMIT = httpx.Timeout(1800.0, connect=5.0)
"""Long enough to load a cold model before the first token; the gateway returns 503 earlier."""


class _Delta(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    delta: _Delta = Field(default_factory=_Delta)
    finish_reason: str | None = None


class _Chunk(BaseModel):
    choices: list[_Choice] = Field(default_factory=list)
    error: JsonObject | None = None


class Chat:
    """``/v1/chat/completions``."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def stream(
        self,
        model: str,
        messages: Sequence[JsonObject],
        *,
        wait_seconds: float = 0.0,
        on_wait: Callable[[str], None] = lambda _reason: None,
        **options: object,
    ) -> Generator[str, None, None]:
        """Yield the answer piece by piece; ``options`` are extra request fields.

        While the model's engine is not ready, the request is retried for up to
        ``wait_seconds``; ``on_wait`` receives the reason. Closing the iterator stops generation.
        """
        given = {name: value for name, value in options.items() if value is not None}
        body = {"model": model, "messages": list(messages), "stream": True, **given}
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                yield from self._once(body)
                return
            except ApiError as error:
                if error.code != NOT_READY or time.monotonic() > deadline:
                    raise
                on_wait(error.message)
                time.sleep(pause_before(1))

    def _once(self, body: JsonObject) -> Iterator[str]:
        with self._transport.post_stream(PATH, body, SILENCE_LIMIT) as response:
            try:
                for event in EventSource(response).iter_sse():
                    if event.data == DONE:
                        return
                    yield from _texts(_Chunk.model_validate_json(event.data))
            except (SSEError, ValidationError) as error:
                raise UnexpectedAnswer(f"{PATH} sent an invalid event: {error}") from error
        raise UnexpectedAnswer(f"{PATH} ended before the answer did")


def _texts(chunk: _Chunk) -> Iterator[str]:
    if chunk.error is not None:
        raise UnexpectedAnswer(f"the engine failed: {chunk.error.get('message', chunk.error)}")
    for choice in chunk.choices:
        if choice.delta.content:
            yield choice.delta.content
