"""What a kind of job adds to the job machine: its children, and how to handle their results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from sqlalchemy.orm import Session

from services.core.db.engine import Database
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.queues import QueueNames


@dataclass(frozen=True)
class Launch:
    """A child to start: its command, and environment variables in addition to the inherited ones.

    ``saves_on_pause``: the child heeds `pause_requested` with a checkpoint and `Reporter.paused`,
    for a pause, at its deadline and when its worker stops. Others are stopped, and later continue
    from what is on disk. ``yields``: the child heeds `others_wait`, and may end early for them.
    ``idles``: it waits for requests, so that silence does not mean a hang.
    """

    command: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    saves_on_pause: bool = False
    yields: bool = False
    idles: bool = False


class Handler(Protocol):
    """One kind of job, as a worker sees it.

    `validation` and `work` write the child's specification into ``job_dir`` and return how to
    start it; a `TemperError` fails the job with its message. Later attempts call them again with
    the same folder.
    """

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch | None:
        """Prepare the child that validates the job's files; None when it has no files."""
        ...

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Prepare the child that does the job."""
        ...

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Return the part of a successful result to store; runs in the job's last transaction."""
        ...


@runtime_checkable
class ChecksInput(Protocol):
    """A handler that checks a valid job again before it waits for a device."""

    def needs_device(self, session: Session, job: Job, result: dict[str, Any]) -> bool:
        """Whether the work needs a device, from the validation's result; runs in the transaction
        that queues the job. Raises the `TemperError` that fails it."""
        ...


@dataclass(frozen=True)
class ServedKind:
    """A kind of job that a worker serves, and its queues."""

    handler: Handler
    queues: QueueNames
