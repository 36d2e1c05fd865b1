"""Chat completions from an OpenAI-compatible server, for work that asks many and must not fail
for a passing trouble."""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import TracebackType
from typing import Self

import aiohttp
from pydantic import BaseModel, ValidationError
from yarl import URL

from services.common.clients.chat import (
    ChatCompletion,
    ChatRequest,
    TokenUsage,
    ToolCall,
    read_completion,
)
from services.common.contracts.base import JsonObject
from services.common.errors import TemperError

__all__ = [
    "ChatCompletion",
    "ChatRequest",
    "InferenceClient",
    "InferenceError",
    "RetryPolicy",
    "TokenUsage",
    "ToolCall",
]

LARGEST_ANSWER = 32 * 2**20
KEPT_BODY = 2000
RETRIED = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class InferenceError(TemperError):
    """No completion came.

    ``status`` and ``body`` (cut after 2,000 characters) are the server's last answer, null and
    empty if there was none. ``transient`` tells trouble that outlasted all attempts from a
    request or an answer that another attempt would not make better.
    """

    code = "inference_failed"

    def __init__(
        self,
        message: str,
        *,
        transient: bool,
        status: int | None = None,
        body: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.attempts = 1


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long to try. Waits double from the first to the longest, with jitter;
    a server's Retry-After goes before. Nothing is begun that would pass the deadline."""

    attempts: int = 6
    deadline_seconds: float = 900.0
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 30.0


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


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
        retry: RetryPolicy | None = None,
        max_connections: int = 1024,
    ) -> None:
        self._url = URL(base_url.rstrip("/") + "/chat/completions")
        self._api_key = api_key
        self._timeout = timeout
        self._retry = retry or RetryPolicy()
        self._max_connections = max_connections

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._max_connections),
            headers={"Authorization": f"Bearer {self._api_key}"} if self._api_key else {},
            # The whole of an attempt has a limit, in _attempt.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy of the environment must not be asked for a loopback address.
            trust_env=self._url.host not in LOOPBACK,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.close()

    async def chat(self, request: ChatRequest) -> ChatCompletion:
        """Ask until it is answered or retrying has no point; raises `InferenceError`."""
        payload = request.model_dump(mode="json", exclude_none=True)
        deadline = time.monotonic() + self._retry.deadline_seconds
        attempt = 1
        while True:
            begun = time.monotonic()
            try:
                answer = await self._attempt(payload, min(self._timeout, deadline - begun))
                return self._completion(answer, time.monotonic() - begun, attempt)
            except InferenceError as error:
                error.attempts = attempt
                wait = self._wait(error, attempt)
                left = deadline - time.monotonic()
                if not error.transient or attempt >= self._retry.attempts or wait >= left:
                    raise
            await asyncio.sleep(wait)
            attempt += 1

    async def _attempt(self, payload: JsonObject, limit: float) -> _Answer:
        try:
            async with asyncio.timeout(limit):
                answer = await self._post(payload)
        except TimeoutError:
            raise InferenceError(
                f"{self._url} did not answer within {limit:.1f} s", transient=True
            ) from None
        except aiohttp.InvalidURL as error:
            raise InferenceError(f"{self._url} is no URL", transient=False) from error
        except (aiohttp.ClientError, OSError) as error:
            what = str(error) or type(error).__name__
            raise InferenceError(f"{self._url} was not reached: {what}", transient=True) from error
        if answer.status != HTTPStatus.OK:
            raise self._refusal(answer)
        return answer

    async def _post(self, payload: JsonObject) -> _Answer:
        async with self._http.post(self._url, json=payload, allow_redirects=False) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > LARGEST_ANSWER:
                    raise InferenceError(
                        f"{self._url} answered more than {LARGEST_ANSWER >> 20} MiB",
                        transient=False,
                        status=response.status,
                    )
            return _Answer(response.status, response.headers, bytes(body))

    def _completion(self, answer: _Answer, latency: float, attempt: int) -> ChatCompletion:
        try:
            return read_completion(answer.body, latency, attempt)
        except ValueError as error:
            raise InferenceError(
                f"{self._url} did not answer with a chat completion: {error}",
                transient=True,  # a stray page of a proxy is not the endpoint's last word
                status=answer.status,
                body=self._redacted(answer.body)[:KEPT_BODY],
            ) from error

    def _refusal(self, answer: _Answer) -> InferenceError:
        text = self._redacted(answer.body)
        retried = answer.status in RETRIED or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return InferenceError(
            f"{self._url} answered {answer.status}: {_reason(text)}",
            transient=retried and answer.headers.get("x-should-retry") != "false",
            status=answer.status,
            body=text[:KEPT_BODY],
            retry_after=_retry_after(answer.headers),
        )

    def _redacted(self, body: bytes) -> str:
        text = body.decode(errors="replace")
        return text.replace(self._api_key, "***") if self._api_key else text

    def _wait(self, error: InferenceError, attempt: int) -> float:
        if error.retry_after is not None:
            return error.retry_after
        longest = self._retry.longest_wait_seconds
        wait = min(longest, self._retry.first_wait_seconds * 2.0 ** (attempt - 1))
        return wait * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


class _Error(BaseModel):
    message: str


class _ErrorBody(BaseModel):
    error: _Error


def _reason(text: str) -> str:
    try:
        return _ErrorBody.model_validate_json(text).error.message[:500]
    except ValidationError:
        return " ".join(text.split())[:200] or "nothing"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value: str = headers.get("retry-after", "")
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    until: datetime = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (until - datetime.now(UTC)).total_seconds())
