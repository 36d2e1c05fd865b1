"""How a request can fail, and when it is worth another attempt."""

from dataclasses import dataclass
from enum import StrEnum

from services.contracts.errors import TemperError


class Trouble(StrEnum):
    """What kept an answer away."""

    UNSENT = "unsent"  # nobody was there to take the request
    BROKEN_OFF = "broken_off"  # the connection ended before the answer did
    TIMED_OUT = "timed_out"
    STATUS = "status"  # the answer is a refusal
    FINAL = "final"  # the answer says that another attempt has no point, or none can be made
    UNREADABLE = "unreadable"  # the answer is not what was asked for


class ServiceFailed(TemperError):
    """No answer came, or none of use. ``status`` and ``body`` (cut after 2,000 characters) are
    those of the last answer, null and empty if there was none."""

    code = "service_failed"

    def __init__(
        self,
        message: str,
        trouble: Trouble,
        *,
        status: int | None = None,
        body: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.trouble = trouble
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.attempts = 1


@dataclass(frozen=True)
class Retries:
    """Which troubles are worth another attempt, and how long all attempts may take together.

    A request that was never sent always is, one that was answered for good never. Waits double
    from the first to the longest, with jitter; a server's Retry-After goes before. Nothing is
    begun that would pass the deadline.
    """

    attempts: int
    deadline_seconds: float
    statuses: frozenset[int] = frozenset()
    troubles: frozenset[Trouble] = frozenset()
    first_wait_seconds: float = 0.5
    longest_wait_seconds: float = 8.0

    def include(self, error: ServiceFailed) -> bool:
        """Whether another attempt may fare better."""
        if error.trouble is Trouble.FINAL:
            return False
        if error.trouble is Trouble.STATUS:
            return error.status in self.statuses
        return error.trouble is Trouble.UNSENT or error.trouble in self.troubles
