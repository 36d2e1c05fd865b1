"""HTTP to the gateway: timeouts, safe retries, typed responses and errors."""

import random
import ssl
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from services.contracts.base import ErrorBody, JsonObject, Request
from services.contracts.validation import first_fault
from temper.client.errors import ApiError, ClientError, UnexpectedAnswer, Unreachable

Answer = TypeVar("Answer", bound=BaseModel)
Query = Mapping[str, str | int | Sequence[str]]

ATTEMPTS = 4
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
LONGEST_PAUSE = 10.0
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

TIME_LIMIT = httpx.Timeout(30.0, connect=5.0)
TRANSFER_TIME_LIMIT = httpx.Timeout(300.0, connect=5.0)


class Transport:
    """A connection pool to one gateway. Thread-safe."""

    def __init__(self, base_url: str, api_key: str | None) -> None:
        self.base_url = base_url.rstrip("/")
        if api_key and not api_key.isascii():
            raise ClientError("the API key contains characters outside of ASCII")
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        url = _checked(self.base_url)
        self.http = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=TIME_LIMIT,
            # Plain HTTP trusts no one: reading all the certificates takes longer than a request.
            verify=url.scheme == "https" or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            # A proxy from the environment cannot reach this machine's loopback.
            trust_env=url.host not in LOOPBACK,
        )

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def status_of(self, path: str) -> int:
        """Return the status of a GET, without retries."""
        with self._reaching():
            return self.http.get(path).status_code

    def get(self, path: str, into: type[Answer], query: Query | None = None) -> Answer:
        """GET ``path``, with retries while the gateway is unreachable."""
        params = dict(query or {})
        return _parsed(self._retried(lambda: self.http.get(path, params=params)), into)

    def post(self, path: str, into: type[Answer], body: Request | None = None) -> Answer:
        """POST ``body`` under a new idempotency key, so that retries are safe."""
        headers = _idempotent()
        content = None
        if body is not None:
            content = body.model_dump_json()
            headers["Content-Type"] = "application/json"
        send = partial(self.http.post, path, content=content, headers=headers)
        return _parsed(self._retried(send), into)

    def delete(self, path: str, into: type[Answer]) -> Answer:
        """DELETE ``path``, without retries: a second response would be a 404."""
        with self._reaching():
            return _parsed(self.http.delete(path), into)

    def upload(
        self,
        path: str,
        into: type[Answer],
        fields: Mapping[str, str],
        filename: str,
        body: IO[bytes],
    ) -> Answer:
        """POST a multipart form whose ``file`` is streamed from ``body``; retried like `post`."""
        headers = _idempotent()

        def send() -> httpx.Response:
            body.seek(0)
            return self.http.post(
                path,
                data=dict(fields),
                files={"file": (filename, body)},
                headers=headers,
                timeout=TRANSFER_TIME_LIMIT,
            )

        return _parsed(self._retried(send), into)

    @contextmanager
    def stream(
        self, path: str, query: Query, headers: Mapping[str, str], timeout: httpx.Timeout
    ) -> Iterator[httpx.Response]:
        """GET ``path`` and yield the response before its body is read."""
        with (
            self._reaching(),
            self.http.stream(
                "GET", path, params=dict(query), headers=dict(headers), timeout=timeout
            ) as response,
        ):
            if response.is_error:
                response.read()
                raise error_of(response)
            yield response

    @contextmanager
    def post_stream(
        self, path: str, body: JsonObject, timeout: httpx.Timeout
    ) -> Iterator[httpx.Response]:
        """POST ``body``, without retries, and yield the response before its body is read."""
        with (
            self._reaching(),
            self.http.stream("POST", path, json=body, timeout=timeout) as response,
        ):
            if response.is_error:
                response.read()
                raise error_of(response)
            yield response

    def _retried(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        for attempt in range(1, ATTEMPTS):
            try:
                with self._reaching():
                    response = send()
            except Unreachable:
                time.sleep(pause_before(attempt))
                continue
            if not _is_worth_a_retry(response):
                return response
            time.sleep(pause_before(attempt, response.headers.get("retry-after")))
        with self._reaching():
            return send()

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except httpx.RequestError as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"cannot reach the gateway at {self.base_url}: {reason}") from error


def _checked(base_url: str) -> httpx.URL:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ClientError(f"{base_url!r} is not a gateway URL: {error}") from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise ClientError(f"{base_url!r} is not a gateway URL such as http://host:8080")
    return url


def _parsed(response: httpx.Response, into: type[Answer]) -> Answer:
    if response.is_error:
        raise error_of(response)
    try:
        return into.model_validate_json(response.content)
    except ValidationError as error:
        where = f"{response.request.method} {response.request.url}"
        fault = first_fault(error)
        raise UnexpectedAnswer(
            f"{where} answered {response.status_code} with something other than "
            f"{into.__name__}: {fault.field} {fault.message}"
        ) from error


def _idempotent() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid.uuid4())}


def error_of(response: httpx.Response) -> ApiError:
    """Turn an error response, whose body has been read, into an exception."""
    request_id = response.headers.get("x-request-id")
    try:
        detail = ErrorBody.model_validate_json(response.content).error
    except ValidationError:
        return ApiError(
            f"{response.request.url.host} answered {response.status_code} "
            f"{response.reason_phrase}".rstrip(),
            status=response.status_code,
            code=f"http_{response.status_code}",
            request_id=request_id,
        )
    return ApiError(
        detail.message,
        status=response.status_code,
        code=detail.code or detail.type,
        param=detail.param,
        request_id=request_id,
    )


def pause_before(attempt: int, retry_after: str | None = None) -> float:
    """Seconds to wait after failure number ``attempt``: exponential backoff with jitter.

    A ``Retry-After`` takes precedence; at most `LONGEST_PAUSE`.
    """
    if retry_after is not None and retry_after.isdigit():
        return min(float(retry_after), LONGEST_PAUSE)
    doubled = float(0.2 * 2 ** min(attempt, 10))
    return min(doubled, LONGEST_PAUSE) * random.uniform(0.5, 1.0)  # noqa: S311  (spreads load)


def _is_worth_a_retry(response: httpx.Response) -> bool:
    if response.headers.get("x-should-retry") == "false":
        return False
    return response.status_code in RETRIED_STATUSES


CHUNK = 1 << 16

Progress = Callable[[int, int], None]
"""Called with bytes done and total bytes, 0 if unknown."""


def download(
    transport: Transport, address: str, target: Path, progress: Progress | None = None
) -> None:
    """Stream ``address`` to ``target``, which appears once complete."""
    partial = target.with_name(f"{target.name}.partial")
    try:
        with (
            open(partial, "wb") as out,
            transport.stream(address, {}, {}, TRANSFER_TIME_LIMIT) as response,
        ):
            total = int(response.headers.get("content-length", 0))
            for chunk in response.iter_bytes(CHUNK):
                out.write(chunk)
                if progress is not None:
                    progress(out.tell(), total)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
