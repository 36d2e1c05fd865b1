"""When to give up on an endpoint, instead of asking it every sample of a file."""

from dataclasses import dataclass

from services.contracts.errors import JobFailed

STREAK = 10
"""So many samples in a row, none of them answered for the same reason, end the evaluation."""

_REFUSALS = frozenset({401, 402, 403, 404, 405, 410, 421, 501})


@dataclass(frozen=True)
class RequestFailure:
    """Why a sample has no answer: the HTTP status, None when there was none, and one line
    that names it."""

    status_code: int | None
    message: str

    @property
    def code(self) -> str:
        """The code of a job that fails for this reason."""
        if self.status_code in _REFUSALS:
            return "endpoint_refused"
        return "request_rejected" if self.is_of_the_sample else "endpoint_unavailable"

    @property
    def is_of_the_sample(self) -> bool:
        """Whether the endpoint works and had something against this one request."""
        status = self.status_code
        return status not in _REFUSALS and status in range(400, 500) and status not in {408, 429}


class FailureWatch:
    """Follows how samples end and raises ``JobFailed`` when to go on is pointless.

    An endpoint that refuses (a wrong key, an unknown model) or is unreachable after all retries
    ends the evaluation at any time. A rejection of single requests (a prompt that is too long)
    does so only while nothing was ever answered, and only when the reason is word for word
    the same.
    """

    def __init__(self, *, answered: int) -> None:
        self._any_answer = answered > 0
        self._cause: tuple[str, int | None, str] | None = None
        self._streak = 0
        self._last: RequestFailure | None = None

    def answered(self) -> None:
        """A sample was answered."""
        self._any_answer = True
        self._cause = None

    def failed(self, failure: RequestFailure) -> None:
        """A sample was not answered, after all retries."""
        self._last = failure
        words = failure.message if failure.is_of_the_sample else ""
        cause = (failure.code, failure.status_code, words)
        self._streak = self._streak + 1 if cause == self._cause else 1
        self._cause = cause
        if self._streak < STREAK or (failure.is_of_the_sample and self._any_answer):
            return
        raise JobFailed(
            f"{STREAK} samples in a row got no answer: {failure.message}", code=failure.code
        )

    def finish(self) -> None:
        """All samples have ended; raises when none of them was answered."""
        if not self._any_answer and self._last is not None:
            raise JobFailed(f"no sample was answered: {self._last.message}", code=self._last.code)


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first single error of a group."""
    error = errors.exceptions[0]
    return first_error(error) if isinstance(error, BaseExceptionGroup) else error
