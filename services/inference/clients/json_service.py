"""POSTing JSON to a server with retries: exponential backoff with jitter, bounded time and memory.

A server may hang, close the connection, or send a malformed or endless answer: each costs a bounded
time and memory and raises `ServiceFailed`."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Generic, Self, TypeVar

import aiohttp
from pydantic import BaseModel
from yarl import URL

from services.inference.clients.adaptive_limit import AdaptiveLimit
from services.inference.clients.resolving import GuardedResolver
from services.inference.clients.retries import (
    BrokenOffAnswer,
    FailureKind,
    Retries,
    ServiceFailed,
    seconds_to_wait,
)
from services.parsing.foreign_json import read_foreign

LARGEST_ANSWER = 64 * 2**20
"""Bytes. JSON may escape each character of an 8 MiB text as six bytes."""
KEPT_BODY = 2000
SHORTEST_SECRET = 8
"""Characters. A shorter header value could occur in any answer by chance."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Value = TypeVar("Value")


@dataclass(frozen=True)
class ServiceAnswer(Generic[Value]):
    """A parsed answer; ``seconds`` is the duration of the last of ``attempts``, of which
    ``unreadable`` got an answer that could not be read."""

    value: Value
    attempts: int
    seconds: float
    unreadable: int = 0


@dataclass(slots=True)
class _Raw:
    status: int
    retry_after: float | None
    is_final: bool
    body: bytes = field(repr=False)
    location: str | None = None


@dataclass(slots=True)
class _Request:
    method: str
    url: URL
    body: bytes = field(repr=False)


class JsonService:
    """Posts to one URL, at most ``connections`` at once; ``timeout`` is that of one attempt.

    ``largest_answer`` is in bytes. ``keep_alive`` reuses connections, which may close just as a
    request is sent: set False for requests that must not be sent twice. ``direct`` bypasses the
    environment's proxies, for the operator's own services. With ``adapts``, fewer requests are in
    flight while the server rejects them for lack of capacity, which then costs time but no attempt.
    ``headers`` are sent with every request. Use it as an async context manager.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        timeout: float,
        retries: Retries,
        connections: int,
        largest_answer: int | None = None,
        keep_alive: bool = True,
        direct: bool = False,
        adapts: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._url = URL(url)
        self._urls: dict[str, URL] = {}
        self._api_key = api_key
        self._timeout = timeout
        self._retries = retries
        self._connections = connections
        self._largest_answer = largest_answer or LARGEST_ANSWER
        self._keep_alive = keep_alive
        self._limit = AdaptiveLimit(connections) if adapts else None
        self._headers = dict(headers or {})
        values = [each for each in self._headers.values() if len(each) >= SHORTEST_SECRET]
        self._secrets = [api_key, *values] if api_key else values
        # The environment's proxy must not be used for loopback addresses.
        self._direct = direct or self._url.host in LOOPBACK

    async def __aenter__(self) -> Self:
        headers = {
            "Accept": "application/json",
            **self._headers,
            "Content-Type": "application/json",
            # Bounds on bytes received are then bounds on the answer.
            "Accept-Encoding": "identity",
        }
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections,
                force_close=not self._keep_alive,
                resolver=GuardedResolver(),
            ),
            headers=headers,
            # _attempt limits the attempt as a whole.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=not self._direct,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    async def post(
        self, payload: Any, read: Callable[[bytes], Value], path: str = ""
    ) -> ServiceAnswer[Value]:
        """Send ``payload`` as JSON until ``read`` accepts an answer.

        ``read`` raises ``ValueError`` for an unexpected body, `BrokenOffAnswer` for one that the
        server did not finish. ``path`` is appended to the URL. Raises `ServiceFailed`.
        """
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = URL(f"{self._url}{path}")
        return await self._retried(_Request("POST", url, json.dumps(payload).encode()), read)

    async def get(self, read: Callable[[bytes], Value], path: str) -> ServiceAnswer[Value]:
        """Get ``path``, appended to the URL, until ``read`` accepts an answer, as `post` does."""
        return await self._retried(_Request("GET", URL(f"{self._url}{path}"), b""), read)

    async def delete(self) -> None:
        """Send DELETE to the URL; raises `ServiceFailed`."""
        await self._retried(_Request("DELETE", self._url, b""), bytes)

    def request_headers(self) -> Mapping[str, str]:
        """Headers of the next request beside those of all requests."""
        return {}

    def note_headers(self, headers: Mapping[str, str]) -> None:
        """Read the headers of an answer."""

    async def reach(self) -> None:
        """Send an OPTIONS request, which is safe, and accept any answer; raises `ServiceFailed`."""
        try:
            await self._retried(_Request("OPTIONS", self._url, b""), bytes)
        except ServiceFailed as error:
            if error.status is None:
                raise

    async def _retried(
        self, request: _Request, read: Callable[[bytes], Value]
    ) -> ServiceAnswer[Value]:
        deadline = time.monotonic() + self._retries.deadline_seconds
        attempt, refusals, unreadable = 1, 0, 0
        while True:
            if self._limit is not None:
                deadline += await self._limit.room()
            begun = time.monotonic()
            try:
                limit = min(self._timeout, deadline - begun)
                value = await self._limited(request, read, limit)
                return ServiceAnswer(value, attempt, time.monotonic() - begun, unreadable)
            except ServiceFailed as error:
                error.attempts, error.seconds = attempt, time.monotonic() - begun
                unreadable += error.kind in {FailureKind.UNREADABLE, FailureKind.ENDLESS}
                error.unreadable = unreadable
                error.transient = self._retries.include(error)
                wait = error.retry_after
                if wait is None:
                    wait = self._retries.wait(attempt)
                left = deadline - time.monotonic()
                refusals += self._limit is not None and error.is_congestion
                spent = attempt - refusals >= self._retries.attempts or wait >= left
                if spent or not error.transient:
                    raise
            await asyncio.sleep(wait)
            attempt += 1

    async def _limited(
        self, request: _Request, read: Callable[[bytes], Value], seconds: float
    ) -> Value:
        if self._limit is None:
            return await self._attempt(request, read, seconds)
        begun = self._limit.begin()
        try:
            value = await self._attempt(request, read, seconds)
        except ServiceFailed as error:
            if error.is_congestion or error.kind is FailureKind.TIMED_OUT:
                self._limit.congested(begun, error.retry_after)
            raise
        finally:
            self._limit.end()
        self._limit.succeeded()
        return value

    async def _attempt(
        self, request: _Request, read: Callable[[bytes], Value], limit: float
    ) -> Value:
        if self._http.closed:
            raise ServiceFailed("the client was closed", FailureKind.FINAL)
        url = request.url
        try:
            async with asyncio.timeout(limit):
                raw = await self._exchange(request)
        except TimeoutError:
            message = f"{url} did not answer within {limit:.1f} s"
            raise ServiceFailed(message, FailureKind.TIMED_OUT) from None
        except aiohttp.ClientConnectorError as error:
            message = f"{url} was not reached: {error}"
            raise ServiceFailed(message, FailureKind.UNSENT) from error
        except (aiohttp.ClientError, OSError) as error:
            what = str(error) or type(error).__name__
            message = f"{url} broke off: {what}"
            raise ServiceFailed(message, FailureKind.BROKEN_OFF) from error
        if not HTTPStatus.OK <= raw.status < HTTPStatus.MULTIPLE_CHOICES:
            raise self._refusal(url, raw)
        try:
            return read(raw.body)
        except BrokenOffAnswer as error:
            message = f"{url} broke off: {_short(str(error))}"
            raise ServiceFailed(message, FailureKind.BROKEN_OFF, status=raw.status) from error
        except (ValueError, RecursionError, OverflowError) as error:
            raise ServiceFailed(
                f"{url} gave an answer that cannot be read: {_short(str(error))}",
                FailureKind.UNREADABLE,
                status=raw.status,
                body=self._redacted(raw.body),
            ) from error

    async def _exchange(self, request: _Request) -> _Raw:
        async with self._http.request(
            request.method,
            request.url,
            data=request.body,
            headers=self.request_headers(),
            allow_redirects=False,
        ) as response:
            self.note_headers(response.headers)
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > self._largest_answer:
                    raise ServiceFailed(
                        f"{request.url} answered more than {self._largest_answer >> 20} MiB",
                        FailureKind.ENDLESS,
                        status=response.status,
                    )
            retry_after = response.headers.get("retry-after")
            waiting = None if retry_after is None else seconds_to_wait(retry_after)
            is_final = response.headers.get("x-should-retry") == "false"
            location = response.headers.get("location")
            return _Raw(response.status, waiting, is_final, bytes(body), location)

    def _refusal(self, url: URL, raw: _Raw) -> ServiceFailed:
        text = self._redacted(raw.body)
        reason = _reason(text)
        if raw.location is not None and raw.status < HTTPStatus.BAD_REQUEST:
            target = self._redacted(raw.location.encode(errors="replace"))
            reason = f"it redirects to {_short(target)}, which is not followed; use that address"
        return ServiceFailed(
            f"{url} answered {raw.status}: {reason}",
            FailureKind.FINAL if raw.is_final else FailureKind.STATUS,
            status=raw.status,
            body=text,
            retry_after=raw.retry_after,
        )

    def _redacted(self, body: bytes) -> str:
        text = body[: 4 * KEPT_BODY].decode(errors="replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text[:KEPT_BODY]


def _short(text: str) -> str:
    return " ".join(text.split())[:300]


class _Error(BaseModel):
    message: str
    code: object = None  # text of ours, a number of others


class _ErrorBody(BaseModel):
    error: _Error


def _reason(text: str) -> str:
    """The reason of an HTTP error: the message of OpenAI's and our own error shape with the code,
    by which documentation names it, or the text."""
    try:
        error = read_foreign(_ErrorBody, text.encode()).error
    except ValueError:
        return _short(text) or "nothing"
    message = _short(error.message)
    if not isinstance(error.code, str) or not error.code or error.code in message:
        return message
    return f"{message} ({_short(error.code)})"
