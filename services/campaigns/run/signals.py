"""Why a step ends without an output.

After `StepFailed` the loop continues with its feedback. The others leave the loop; the step resumes
later from its recorded effects.
"""

from enum import StrEnum

from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import Failure
from services.contracts.errors import TemperError


class StepFailed(TemperError):
    """The attempt failed; the LLM reads the message."""

    code = "step_failed"

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class Waiting(Exception):
    """Nothing can proceed until one of ``jobs`` has ended, or without jobs for some time."""

    def __init__(self, reason: str, *jobs: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.jobs = jobs


class OutOfTurn(Waiting):
    """Another loop must take its step first; ``changes`` is the number of step changes seen."""

    def __init__(self, reason: str, changes: int) -> None:
        super().__init__(reason)
        self.changes = changes


class BudgetSpent(Exception):
    """A budget limit is reached."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.limit = limit


class Cause(StrEnum):
    """An interrupt of a step."""

    STOPPING = "stopping"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    OVERDUE = "overdue"


class Interrupted(Exception):
    """The worker must release the campaign."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause
