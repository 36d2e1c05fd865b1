"""Asking a service that takes JSON by POST, for callers that must not fail for a passing trouble.

A server may hang, break off, answer nonsense or without end: each costs a bounded time and memory,
and is a `ServiceFailed` that says so.
"""

import asyncio
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import aiohttp
from yarl import URL

from services.common.clients.retries import Retries, ServiceFailed, Trouble
from services.common.clients.retry_after import seconds_to_wait

__all__ = ["Answer", "JsonService", "Retries", "ServiceFailed", "Trouble"]

LARGEST_ANSWER = 64 * 2**20
"""Bytes. A text of 8 MiB may be written with six bytes a character."""
KEPT_BODY = 2000
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

Value = TypeVar("Value")


@dataclass(frozen=True)
class Answer(Generic[Value]):
    """What came of a request, and how many attempts it took."""

    value: Value
    attempts: int


@dataclass(frozen=True)
class _Raw:
    status: int
    retry_after: float | None
    body: bytes = field(repr=False)


class JsonService:
    """Posts to one URL, at most ``connections`` at once; ``timeout`` is that of one attempt.

    ``keep_alive`` reuses connections, which can end just as a request is sent: false for what
    must not be sent twice. ``direct`` goes past the proxies of the environment, to services of
    the operator's own. Use it as an async context manager.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        *,
        timeout: float,
        retries: Retries,
        connections: int,
        keep_alive: bool = True,
        direct: bool = False,
    ) -> None:
        self._url = URL(url)
        self._api_key = api_key
        self._timeout = timeout
        self._retries = retries
        self._connections = connections
        self._keep_alive = keep_alive
        # A proxy of the environment must not be asked for a loopback address.
        self._direct = direct or self._url.host in LOOPBACK

    async def __aenter__(self) -> Self:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            # An answer is as large as its bytes on the wire.
            "Accept-Encoding": "identity",
        }
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections, force_close=not self._keep_alive
            ),
            headers=headers,
            # The whole of an attempt has a limit, in _attempt.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=not self._direct,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.close()

    async def post(self, payload: Any, read: Callable[[bytes], Value]) -> Answer[Value]:
        """Send ``payload`` as JSON until there is an answer that ``read`` takes.

        ``read`` raises ``ValueError`` for a body that is not what was asked for. Raises
        `ServiceFailed`.
        """
        body = json.dumps(payload).encode()
        deadline = time.monotonic() + self._retries.deadline_seconds
        attempt = 1
        while True:
            try:
                limit = min(self._timeout, deadline - time.monotonic())
                return Answer(await self._attempt(body, read, limit), attempt)
            except ServiceFailed as error:
                error.attempts = attempt
                wait = self._wait(error, attempt)
                left = deadline - time.monotonic()
                spent = attempt >= self._retries.attempts or wait >= left
                if spent or not self._retries.include(error):
                    raise
            await asyncio.sleep(wait)
            attempt += 1

    async def _attempt(self, body: bytes, read: Callable[[bytes], Value], limit: float) -> Value:
        try:
            async with asyncio.timeout(limit):
                raw = await self._exchange(body)
        except TimeoutError:
            message = f"{self._url} did not answer within {limit:.1f} s"
            raise ServiceFailed(message, Trouble.TIMED_OUT) from None
        except aiohttp.ClientConnectorError as error:
            message = f"{self._url} was not reached: {error}"
            raise ServiceFailed(message, Trouble.UNSENT) from error
        except (aiohttp.ClientError, OSError) as error:
            what = str(error) or type(error).__name__
            message = f"{self._url} broke off: {what}"
            raise ServiceFailed(message, Trouble.BROKEN_OFF) from error
        if not HTTPStatus.OK <= raw.status < HTTPStatus.MULTIPLE_CHOICES:
            raise self._refusal(raw)
        try:
            return read(raw.body)
        except (ValueError, RecursionError) as error:
            raise ServiceFailed(
                f"{self._url} gave an answer that cannot be read: {_short(str(error))}",
                Trouble.UNREADABLE,
                status=raw.status,
                body=self._redacted(raw.body),
            ) from error

    async def _exchange(self, payload: bytes) -> _Raw:
        async with self._http.post(self._url, data=payload, allow_redirects=False) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > LARGEST_ANSWER:
                    raise ServiceFailed(
                        f"{self._url} answered more than {LARGEST_ANSWER >> 20} MiB",
                        Trouble.STATUS,  # it would be no shorter the next time
                        status=response.status,
                    )
            waiting = seconds_to_wait(response.headers.get("retry-after", ""))
            return _Raw(response.status, waiting, bytes(body))

    def _refusal(self, raw: _Raw) -> ServiceFailed:
        text = self._redacted(raw.body)
        return ServiceFailed(
            f"{self._url} answered {raw.status}: {_short(text) or 'nothing'}",
            Trouble.STATUS,
            status=raw.status,
            body=text,
            retry_after=raw.retry_after,
        )

    def _redacted(self, body: bytes) -> str:
        text = body[: 4 * KEPT_BODY].decode(errors="replace")
        return (text.replace(self._api_key, "***") if self._api_key else text)[:KEPT_BODY]

    def _wait(self, error: ServiceFailed, attempt: int) -> float:
        if error.retry_after is not None:
            return error.retry_after
        wait = self._retries.first_wait_seconds * 2.0 ** (attempt - 1)
        wait = min(self._retries.longest_wait_seconds, wait)
        return wait * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


def _short(text: str) -> str:
    return " ".join(text.split())[:300]
