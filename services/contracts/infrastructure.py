"""Failures of the infrastructure, told apart from what the policy itself did wrong.

A sample that the infrastructure lost is left out: it says nothing about the policy, so it enters no
advantage, loss, score or mean (docs/failures.md).
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from services.contracts.base import Number, Request, Resource


class InfrastructureCause(StrEnum):
    """What went wrong in a tool, a reward or an engine, if it was not the policy's own doing."""

    REFUSED = "refused"  # no connection could be made
    RESET = "reset"  # the connection ended before the answer was complete
    TIMED_OUT = "timed_out"  # no answer within the service's time limit
    OVERLOADED = "overloaded"  # 429, 503 or 504 after all retries, or a full queue
    SERVER_ERROR = "server_error"  # another HTTP status from 500 on
    MISCONFIGURED = "misconfigured"  # every request would be refused: 401, 403, 404, ...
    UNREADABLE = "unreadable"  # an answer that does not follow the service's contract
    SERVICE_ERROR = "service_error"  # the service says that it failed
    NOT_STARTED = "not_started"  # a process could not be started
    KILLED = "killed"  # a process ended before it answered
    NO_PROCESSOR_TIME = "no_processor_time"  # a time limit passed while the program had to wait
    INTERNAL_ERROR = "internal_error"  # a bug in Temper

    @property
    def may_pass(self) -> bool:
        """Whether the same call may succeed a moment later."""
        return self not in {InfrastructureCause.MISCONFIGURED, InfrastructureCause.INTERNAL_ERROR}

    @property
    def is_outage(self) -> bool:
        """Whether waiting for somebody to repair the service makes sense: not for a bug."""
        return self is not InfrastructureCause.INTERNAL_ERROR


class LeftOut(Resource):
    """Why a sample counts nowhere: what the infrastructure failed at."""

    source: str = Field(description="The tool's name, reward:NAME, grader, engine or temper.")
    cause: InfrastructureCause
    message: str


PAUSE_SHARE = 0.5
"""Of 64 rollouts that began one after the other; a job that loses this many waits."""

Share = Annotated[Number, Field(gt=0.0, le=1.0)]


class InfrastructureLimits(Request):
    """How much a training may lose to the infrastructure before it waits."""

    skip_share: Share = Field(
        default=0.25,
        description="A step is not trained on if more than this share of its rollouts was left "
        "out; it is repeated with new prompts.",
    )
    pause_share: Share = Field(
        default=PAUSE_SHARE,
        description="The job is paused once this share of 64 rollouts that began one after the "
        "other was left out, and tried again later.",
    )


class OutageReport(Resource):
    """Why a job was paused, and when it is tried again."""

    message: str
    seconds: float = Field(ge=0.0, le=3600.0, description="Seconds until the next attempt.")
