"""Decides when an endpoint is given up, instead of asking it every sample of a file."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from services.contracts.errors import JobFailed
from services.inference.causes import REFUSES_EVERYTHING

STREAK = 10
"""Consecutive refusals that end a job in which the endpoint never answered."""
UNAVAILABLE_SECONDS = 600.0
"""Time without any answer, although samples are asked, after which a job ends."""


@dataclass(frozen=True)
class RequestFailure:
    """Why a sample has no answer: the HTTP status, None without a response, and one line."""

    status_code: int | None
    message: str

    @property
    def code(self) -> str:
        """The error code of a job that fails for this reason."""
        if self.status_code in REFUSES_EVERYTHING:
            return "endpoint_refused"
        return "request_rejected" if self.is_of_the_sample else "endpoint_unavailable"

    @property
    def is_refusal(self) -> bool:
        """Whether the endpoint would refuse every request."""
        return self.status_code in REFUSES_EVERYTHING

    @property
    def is_of_the_sample(self) -> bool:
        """Whether the endpoint works and rejected this one request."""
        status = self.status_code
        if status in REFUSES_EVERYTHING or status in {408, 429}:
            return False
        return status in range(400, 500)


class FailureWatch:
    """Follows how samples end and raises ``JobFailed`` when further requests are pointless.

    Unanswered samples alone end nothing: each is an error of its row. A job ends when the endpoint
    has only ever refused (a wrong key, an unknown model), and when it has been unavailable for
    ``unavailable_seconds``, in which every sample failed after all its retries.
    """

    def __init__(
        self,
        *,
        answered: int,
        unavailable_seconds: float = UNAVAILABLE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._any_answer = answered > 0
        self._longest = unavailable_seconds
        self._clock = clock
        self._refused = 0
        self._unavailable_since: float | None = None
        self._last: RequestFailure | None = None

    def answered(self) -> None:
        """A sample was answered."""
        self._any_answer = True
        self._unavailable_since = None

    def failed(self, failure: RequestFailure) -> None:
        """A sample was not answered, after all retries."""
        self._last = failure
        self._refused = self._refused + 1 if failure.is_refusal else 0
        if self._refused >= STREAK and not self._any_answer:
            raise JobFailed(
                f"{STREAK} requests in a row were refused: {failure.message}", code=failure.code
            )
        if failure.is_refusal or failure.is_of_the_sample:
            self._unavailable_since = None
        elif self._unavailable_since is None:
            self._unavailable_since = self._clock()
        elif self._clock() - self._unavailable_since > self._longest:
            raise JobFailed(
                f"no request was answered in {self._longest:.0f} s: {failure.message}",
                code=failure.code,
            )

    def finish(self) -> None:
        """All samples have ended; raises if none of them was answered."""
        if not self._any_answer and self._last is not None:
            raise JobFailed(f"no request was answered: {self._last.message}", code=self._last.code)


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single error of a group."""
    error = errors.exceptions[0]
    return first_error(error) if isinstance(error, BaseExceptionGroup) else error
