"""Services of a local stack, as its supervisor records them for the gateway and clients."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from services.contracts.base import Resource

STACK_FILE = "stack.json"
"""Name of the supervisor's record in the home folder."""


class ServiceStatus(StrEnum):
    """State of a supervised service. One that keeps exiting is failed until it runs again."""

    RUNNING = "running"
    RESTARTING = "restarting"
    FAILED = "failed"
    RECOVERING = "recovering"


class ServiceCondition(Resource):
    """Whether a service runs, and why it last exited.

    ``exits`` counts the exits since it last ran for several minutes; ``last_lines`` ends its log at
    the last of them. ``retry_at`` is the Unix time of the next start of a service that does not
    run.
    """

    status: ServiceStatus = Field(
        default=ServiceStatus.RUNNING, description="Status of the service."
    )
    exits: int = Field(
        default=0, description="Number of exits since the service last ran for several minutes."
    )
    reason: str | None = Field(default=None, description="Reason of the latest exit; null: none.")
    last_lines: list[str] = Field(
        default_factory=list, description="End of the service's log at its latest exit."
    )
    retry_at: int | None = Field(
        default=None,
        description="Time of the next start, in Unix seconds; null while the service runs.",
    )


class StackService(ServiceCondition):
    """A service of the local stack that the gateway belongs to."""

    id: str = Field(description="Name of the service.")
    object: Literal["stack.service"] = "stack.service"
