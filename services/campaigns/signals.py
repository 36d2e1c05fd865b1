"""Why a step ends before it has an output.

`StepFailed` is data: the loop goes on to its feedback with it. The others leave the loop; the step
continues later from what it has recorded.
"""

from enum import StrEnum

from services.contracts.campaign_limits import Limit
from services.contracts.campaign_loops import Failure
from services.contracts.errors import TemperError


class StepFailed(TemperError):
    """The attempt failed; the LLM reads the message."""

    code = "step_failed"

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class Waiting(Exception):
    """Nothing can be done before one of ``jobs`` has ended; without any, before some time has."""

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
    """A limit of the budget is reached."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.limit = limit


class Cause(StrEnum):
    """What interrupts a step."""

    STOPPING = "stopping"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    OVERDUE = "overdue"


class Interrupted(Exception):
    """The worker must let go of the campaign."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause
