"""Requests to an OpenAI-compatible server that are retried through transient failures."""

from collections.abc import Callable
from http import HTTPStatus
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
# An unreadable answer may be a proxy's error page, so it is retried.
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
    """No usable answer.

    ``status`` and ``body`` (cut after 2,000 characters) are the server's last answer, None and
    empty without one. ``transient`` means that retries ran out, not that retrying was pointless.
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
    """Retries for a model server: every failure that may be transient."""
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

    async def __aexit__(self, *error: object) -> None:
        await self._service.__aexit__(*error)

    async def post(
        self, path: str, payload: JsonObject, read: Callable[[bytes], Read]
    ) -> Answer[Read]:
        """Send until ``read`` accepts an answer or retrying is pointless.

        ``read`` raises ValueError for an unexpected answer. Raises
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
