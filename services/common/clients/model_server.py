"""Requests to an OpenAI-compatible server, for work that asks many and must not fail for a passing
trouble."""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeVar

import aiohttp
from pydantic import BaseModel, ValidationError
from yarl import URL

from services.common.clients.retry_after import seconds_to_wait
from services.common.contracts.base import JsonObject
from services.common.errors import TemperError

LARGEST_ANSWER = 32 * 2**20
KEPT_BODY = 2000
RETRIED = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Read = TypeVar("Read")


class InferenceError(TemperError):
    """No answer came that could be used.

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
class Reply:
    """A body that came with status 200, after ``attempt`` attempts; the last took ``seconds``."""

    body: bytes = field(repr=False)
    seconds: float
    attempt: int


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class ModelServer:
    """Asks one server, at most ``max_connections`` at once; ``timeout`` is that of one attempt.

    ``base_url`` is what paths are appended to. Use it as an async context manager.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        timeout: float,
        *,
        retry: RetryPolicy | None = None,
        max_connections: int = 1024,
        largest_answer: int = LARGEST_ANSWER,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._api_key = api_key
        self._timeout = timeout
        self._retry = retry or RetryPolicy()
        self._max_connections = max_connections
        self._largest_answer = largest_answer

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._max_connections),
            headers={"Authorization": f"Bearer {self._api_key}"} if self._api_key else {},
            # The whole of an attempt has a limit, in _attempt.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A proxy of the environment must not be asked for a loopback address.
            trust_env=URL(self._base_url).host not in LOOPBACK,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.close()

    async def post(self, path: str, payload: JsonObject, read: Callable[[Reply], Read]) -> Read:
        """Ask until ``read`` can use what is answered, or retrying has no point.

        ``read`` raises ValueError for an answer that is not what was asked for. Raises
        `InferenceError`.
        """
        url = URL(self._base_url + path)
        deadline = time.monotonic() + self._retry.deadline_seconds
        attempt = 1
        while True:
            if self._http.closed:
                raise InferenceError("the client was closed", transient=False)
            begun = time.monotonic()
            try:
                answer = await self._attempt(url, payload, min(self._timeout, deadline - begun))
                reply = Reply(answer.body, time.monotonic() - begun, attempt)
                return self._used(url, reply, read)
            except InferenceError as error:
                error.attempts = attempt
                wait = self._wait(error, attempt)
                left = deadline - time.monotonic()
                if not error.transient or attempt >= self._retry.attempts or wait >= left:
                    raise
            await asyncio.sleep(wait)
            attempt += 1

    async def _attempt(self, url: URL, payload: JsonObject, limit: float) -> _Answer:
        try:
            async with asyncio.timeout(limit):
                answer = await self._post(url, payload)
        except TimeoutError:
            raise InferenceError(
                f"{url} did not answer within {limit:.1f} s", transient=True
            ) from None
        except aiohttp.InvalidURL as error:
            raise InferenceError(f"{url} is no URL", transient=False) from error
        except (aiohttp.ClientError, OSError) as error:
            what = str(error) or type(error).__name__
            raise InferenceError(f"{url} was not reached: {what}", transient=True) from error
        if answer.status != HTTPStatus.OK:
            raise self._refusal(url, answer)
        return answer

    async def _post(self, url: URL, payload: JsonObject) -> _Answer:
        async with self._http.post(url, json=payload, allow_redirects=False) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > self._largest_answer:
                    raise InferenceError(
                        f"{url} answered more than {self._largest_answer >> 20} MiB",
                        transient=False,
                        status=response.status,
                    )
            return _Answer(response.status, response.headers, bytes(body))

    def _used(self, url: URL, reply: Reply, read: Callable[[Reply], Read]) -> Read:
        try:
            return read(reply)
        except ValueError as error:
            raise InferenceError(
                f"{url} did not answer what was asked: {error}",
                transient=True,  # a stray page of a proxy is not the endpoint's last word
                status=HTTPStatus.OK,
                body=self._redacted(reply.body)[:KEPT_BODY],
            ) from error

    def _refusal(self, url: URL, answer: _Answer) -> InferenceError:
        text = self._redacted(answer.body)
        retried = answer.status in RETRIED or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        return InferenceError(
            f"{url} answered {answer.status}: {_reason(text)}",
            transient=retried and answer.headers.get("x-should-retry") != "false",
            status=answer.status,
            body=text[:KEPT_BODY],
            retry_after=seconds_to_wait(answer.headers.get("retry-after", "")),
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
