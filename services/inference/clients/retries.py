"""Why a request to a server failed, and which failures are worth another attempt."""

import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from http import HTTPStatus

from services.contracts.errors import TemperError


class FailureKind(StrEnum):
    """Why a request failed."""

    UNSENT = "unsent"  # the connection could not be made
    BROKEN_OFF = "broken_off"  # the connection closed before the answer was complete
    TIMED_OUT = "timed_out"
    STATUS = "status"  # an HTTP error status
    FINAL = "final"  # retrying cannot help
    ENDLESS = "endless"  # the body was longer than any answer may be
    UNREADABLE = "unreadable"  # the body could not be parsed


class BrokenOffAnswer(ValueError):
    """A whole body with a part of an answer: the server says that it ended before the model did."""


ABORTED = "abort"
"""The finish reason of requests that vLLM had in progress as it was shut down: their answers end
wherever the model was."""


class ServiceFailed(TemperError):
    """No usable answer.

    ``status`` and ``body`` (cut after 2,000 characters) are those of the last answer, None and
    empty without one; ``seconds`` is the duration of the last of ``attempts``, of which
    ``unreadable`` got an answer that could not be read. ``transient`` means that retries ran out,
    not that retrying was pointless.
    """

    code = "service_failed"

    def __init__(
        self,
        message: str,
        kind: FailureKind,
        *,
        status: int | None = None,
        body: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.attempts = 1
        self.unreadable = 0
        self.seconds = 0.0
        self.transient = False

    @property
    def is_congestion(self) -> bool:
        """Whether the server refused for lack of capacity."""
        return self.kind is FailureKind.STATUS and self.status in _CONGESTION


LONGEST_RETRY_AFTER = 60.0
"""Seconds; a server that asks for more is asked again after these."""
LONGEST_DOUBLING = 16
"""Waits double this many times at most; a float would overflow after a thousand."""

_CONGESTION = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})


@dataclass(frozen=True)
class Retries:
    """Which failures are retried, and for how long.

    Requests that were never sent are always retried, final answers never. Exponential backoff with
    jitter, unless the server sends Retry-After; no attempt starts that would pass the deadline.
    """

    attempts: int
    deadline_seconds: float
    statuses: frozenset[int] = frozenset()
    kinds: frozenset[FailureKind] = frozenset()
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 8.0

    def include(self, error: ServiceFailed) -> bool:
        """Whether another attempt may succeed."""
        if error.kind in {FailureKind.FINAL, FailureKind.ENDLESS}:
            return False
        if error.kind is FailureKind.STATUS:
            return error.status in self.statuses
        return error.kind is FailureKind.UNSENT or error.kind in self.kinds

    def wait(self, attempt: int) -> float:
        """Backoff in seconds after the ``attempt``-th attempt; Retry-After takes precedence."""
        wait = self.first_wait_seconds * 2.0 ** min(attempt - 1, LONGEST_DOUBLING)
        wait = min(self.longest_wait_seconds, wait)
        return wait * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing


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


def seconds_to_wait(value: str) -> float | None:
    """The seconds that a Retry-After header (number or date) asks for, at most
    ``LONGEST_RETRY_AFTER``; None if unparsable."""
    try:
        seconds: float | None = float(value)
    except ValueError:
        seconds = _until(value)
    if seconds is None or not math.isfinite(seconds):
        return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER)


def _until(value: str) -> float | None:
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):
        return None
    until: datetime = when if when.tzinfo else when.replace(tzinfo=UTC)
    return (until - datetime.now(UTC)).total_seconds()
