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

    status: ServiceStatus = ServiceStatus.RUNNING
    exits: int = 0
    reason: str | None = None
    last_lines: list[str] = Field(default_factory=list)
    retry_at: int | None = None


class StackService(ServiceCondition):
    """A service of the local stack that the gateway belongs to."""

    id: str
    object: Literal["stack.service"] = "stack.service"
