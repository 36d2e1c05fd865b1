"""Requests to an OpenAI-compatible server, for work that asks many and must not fail for a passing
trouble."""

from collections.abc import Callable
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeVar

from services.contracts.base import JsonObject
from services.contracts.errors import TemperError
from services.inference.clients.json_service import (
    Answer,
    FailureKind,
    JsonService,
    Retries,
    ServiceFailed,
)

LARGEST_ANSWER = 32 * 2**20
# A stray page of a proxy, which cannot be read, is not the endpoint's last word.
RETRIED_KINDS = frozenset({FailureKind.BROKEN_OFF, FailureKind.TIMED_OUT, FailureKind.UNREADABLE})
RETRIED_STATUSES = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.CONFLICT,
        HTTPStatus.TOO_MANY_REQUESTS,
        *range(500, 600),
    }
)

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
        attempts: int = 1,
    ) -> None:
        super().__init__(message)
        self.transient = transient
        self.status = status
        self.body = body
        self.attempts = attempts


def model_retries(
    attempts: int = 6,
    deadline_seconds: float = 900.0,
    first_wait_seconds: float = 0.5,
    longest_wait_seconds: float = 30.0,
) -> Retries:
    """What is worth another attempt with a model server: all that may pass."""
    return Retries(
        attempts,
        deadline_seconds,
        RETRIED_STATUSES,
        RETRIED_KINDS,
        first_wait_seconds,
        longest_wait_seconds,
    )


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
        retries: Retries | None = None,
        max_connections: int = 1024,
        largest_answer: int = LARGEST_ANSWER,
    ) -> None:
        self._retries = retries or model_retries()
        self._service = JsonService(
            base_url.rstrip("/"),
            api_key,
            timeout=timeout,
            retries=self._retries,
            connections=max_connections,
            largest_answer=largest_answer,
        )

    async def __aenter__(self) -> Self:
        await self._service.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._service.__aexit__(kind, error, trace)

    async def post(
        self, path: str, payload: JsonObject, read: Callable[[bytes], Read]
    ) -> Answer[Read]:
        """Ask until ``read`` can use what is answered, or retrying has no point.

        ``read`` raises ValueError for an answer that is not what was asked for. Raises
        `InferenceError`.
        """
        try:
            return await self._service.post(payload, read, path)
        except ServiceFailed as error:
            raise InferenceError(
                error.message,
                transient=self._retries.include(error),
                status=error.status,
                body=error.body,
                attempts=error.attempts,
            ) from error
