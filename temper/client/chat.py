"""Answers of a model as a stream of text: chat completions, and responses with tools."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence

import httpx
from httpx_sse import EventSource, SSEError
from pydantic import BaseModel, Field, ValidationError

from services.contracts.base import JsonObject
from temper.client.errors import ApiError, UnexpectedAnswer
from temper.client.transport import Transport, pause_before

PATH = "/v1/chat/completions"
RESPONSES = "/v1/responses"
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


class _Event(BaseModel):
    type: str
    delta: str | None = None
    item: JsonObject | None = None
    response: JsonObject | None = None
    message: str | None = None


class Chat:
    """``/v1/chat/completions``, and ``/v1/responses`` where the gateway runs tools."""

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
        yield from self._awaited(lambda: self._once(body), wait_seconds, on_wait)

    def with_tools(
        self,
        model: str,
        items: list[JsonObject],
        tools: Sequence[JsonObject],
        *,
        wait_seconds: float = 0.0,
        on_wait: Callable[[str], None] = lambda _reason: None,
        on_item: Callable[[JsonObject], None] = lambda _item: None,
        **options: object,
    ) -> Generator[str, None, None]:
        """Yield the answer to the conversation ``items`` piece by piece, as `stream` does.

        The gateway runs ``tools`` between the model's turns; ``on_item`` receives each finished
        item, such as a call with its output. All of them are added to ``items`` at the end.
        """
        given = {name: value for name, value in options.items() if value is not None}
        asked = {"input": list(items), "tools": list(tools), "stream": True, "store": False}
        body = {"model": model, **asked, **given}
        yield from self._awaited(
            lambda: self._response(body, items, on_item), wait_seconds, on_wait
        )

    def _awaited(
        self,
        begin: Callable[[], Iterator[str]],
        wait_seconds: float,
        on_wait: Callable[[str], None],
    ) -> Iterator[str]:
        """Begin again while the model's engine is not ready."""
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                yield from begin()
                return
            except ApiError as error:
                if error.code != NOT_READY or time.monotonic() > deadline:
                    raise
                on_wait(error.message)
                time.sleep(pause_before(1))

    def _response(
        self, body: JsonObject, items: list[JsonObject], on_item: Callable[[JsonObject], None]
    ) -> Iterator[str]:
        with self._transport.post_stream(RESPONSES, body, SILENCE_LIMIT) as response:
            try:
                for sent in EventSource(response).iter_sse():
                    event = _Event.model_validate_json(sent.data)
                    if event.type == "response.output_text.delta" and event.delta:
                        yield event.delta
                    elif event.type == "response.output_item.done" and event.item is not None:
                        on_item(event.item)
                    elif event.type in _ENDS:
                        items += _output(event)
                        return
            except (SSEError, ValidationError) as error:
                raise UnexpectedAnswer(f"{RESPONSES} sent an invalid event: {error}") from error
        raise UnexpectedAnswer(f"{RESPONSES} ended before the answer did")

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


_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "error"})


def _output(event: _Event) -> list[JsonObject]:
    """The items of a response that ended; raises `UnexpectedAnswer` for one that failed."""
    ended = event.response or {}
    if event.type in {"response.failed", "error"}:
        told = event.message or (ended.get("error") or {}).get("message") or "without a reason"
        raise UnexpectedAnswer(f"the response failed: {told}")
    return list(ended.get("output") or ())


def _texts(chunk: _Chunk) -> Iterator[str]:
    if chunk.error is not None:
        raise UnexpectedAnswer(f"the engine failed: {chunk.error.get('message', chunk.error)}")
    for choice in chunk.choices:
        if choice.delta.content:
            yield choice.delta.content
