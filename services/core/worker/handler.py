"""What a kind of job adds to the machine: its children, and what their results mean."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy.orm import Session

from services.core.db.engine import Database
from services.core.jobs.claims import Claim
from services.core.jobs.job import Job
from services.core.jobs.queues import QueueNames


@dataclass(frozen=True)
class Launch:
    """A child to start: its command, and variables beyond those every child gets."""

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


class Handler(Protocol):
    """One kind of job, as a worker sees it.

    `validation` and `work` write what the child reads into ``job_dir`` and say how to start it;
    a `TemperError` they raise fails the job with its message. Both may be called again for a
    later attempt on the same folder.
    """

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch | None:
        """Prepare the child that validates the job's files; None when there are none to read."""
        ...

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Prepare the child that does the job."""
        ...

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Return what is kept of a successful result; runs in the job's last transaction."""
        ...


@dataclass(frozen=True)
class ServedKind:
    """A kind of job that a worker serves: how, and from which queues."""

    handler: Handler
    queues: QueueNames
