"""Jobs as values, the status transitions they may make, and the status that users see."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, case, not_, or_
from sqlalchemy.orm import Session

from services.contracts.errors import InvalidRequest, TemperError
from services.contracts.failures import FailureCode
from services.contracts.jobs import JobError, JobKind, JobRequest, JobStatus
from services.contracts.kinds import kind_of
from services.core.db.engine import now
from services.core.db.tables import JobRow
from services.core.ids import new_id
from services.jobs.queues import queues_of

EDGES: dict[JobStatus, frozenset[JobStatus]] = {
    JobStatus.VALIDATING_FILES: frozenset(
        {JobStatus.QUEUED, JobStatus.PAUSED, JobStatus.FAILED, JobStatus.CANCELLED}
    ),
    JobStatus.QUEUED: frozenset(
        {JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.FAILED, JobStatus.CANCELLED}
    ),
    # Back to the queue: the worker was lost or is shutting down, and another may resume.
    JobStatus.RUNNING: frozenset(
        {
            JobStatus.QUEUED,
            JobStatus.PAUSED,
            JobStatus.SUCCEEDED,
            JobStatus.FAILED,
            JobStatus.CANCELLED,
        }
    ),
    # Failed: its deadline passed.
    JobStatus.PAUSED: frozenset({JobStatus.QUEUED, JobStatus.FAILED, JobStatus.CANCELLED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset({JobStatus.VALIDATING_FILES, JobStatus.QUEUED}),  # retried by hand
    JobStatus.CANCELLED: frozenset(),
}


NO_DEVICE = -1
"""``gpus`` of a job that never holds a device, also no CPU slot."""

REMOTE_SLOT = -2
"""``gpus`` of a job that computes nothing on its host, such as one that only asks remote endpoints:
it holds one of the host's remote slots."""


class IllegalMove(TemperError):
    """A transition that the table does not allow: a bug."""

    code = "illegal_move"


class LeaseLost(TemperError):
    """The job has changed concurrently: its epoch, owner or status is different."""

    code = "lease_lost"


def check_move(job_id: str, before: JobStatus, after: JobStatus) -> None:
    """Raise `IllegalMove` unless the transition exists."""
    if after not in EDGES[before]:
        raise IllegalMove(f"job {job_id} cannot go from {before} to {after}")


@dataclass(frozen=True)
class NewJob:
    """A job to create.

    ``gpus`` is the number of GPUs; 0 requests a CPU slot, None one GPU where the host has any and
    a CPU slot elsewhere, `REMOTE_SLOT` a remote slot, `NO_DEVICE` nothing. The input is validated
    on ``validation_queue`` first. ``warnings`` become its first events.
    """

    id: str
    kind: str
    queue: str
    validation_queue: str
    request: dict[str, Any]
    gpus: int | None = None
    priority: int = 0
    metadata: dict[str, str] | None = None
    deadline_seconds: int | None = None
    memory_estimate: dict[str, Any] | None = None
    warnings: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        kind: str,
        body: JobRequest,
        gpus: int | None,
        warnings: Sequence[str] = (),
    ) -> "NewJob":
        """A job of a kind for a checked request.

        Raises `InvalidRequest` when the request names devices and the job runs on none.
        """
        # The devices of a job that never holds one are those of the jobs it creates.
        if body.devices is not None and gpus not in {len(body.devices), NO_DEVICE}:
            message = "devices: this job runs on no GPU of a worker; leave devices out"
            raise InvalidRequest(message, param="devices")
        queues = queues_of(kind)
        return cls(
            id=new_id(kind_of(kind).id_prefix),
            kind=kind,
            queue=queues.work,
            validation_queue=queues.validation,
            request=body.model_dump(mode="json"),
            gpus=gpus,
            priority=body.priority,
            metadata=body.metadata,
            deadline_seconds=body.deadline_seconds,
            warnings=warnings,
        )


@dataclass(frozen=True)
class Job:
    """A snapshot of a job."""

    seq: int
    id: str
    kind: str
    status: JobStatus
    queue: str
    validation_queue: str
    priority: int
    gpus: int | None
    request: dict[str, Any]
    metadata: dict[str, str] | None
    result: dict[str, Any] | None
    error: JobError | None
    phase: str | None
    step: int | None
    total_steps: int | None
    eta_seconds: float | None
    queue_reason: str | None
    memory_estimate: dict[str, Any] | None
    attempt: int
    losses: int
    progress: int
    not_before: float | None
    epoch: int
    owner: str | None
    lease_expires_at: float | None
    cancel_requested_at: float | None
    pause_requested_at: float | None
    deadline_at: float | None
    reports_offset: int
    event_count: int
    created_at: float
    updated_at: float
    started_at: float | None
    finished_at: float | None
    name: str | None = None
    """None of jobs of earlier versions."""

    download: dict[str, Any] | None = None
    """The state of its download of a model; None while it downloads none."""

    @property
    def devices(self) -> list[int | str] | None:
        """Indexes and UUIDs of the GPUs that it must have; None: any."""
        devices: list[int | str] | None = self.request.get("devices")
        return devices

    @property
    def current_queue(self) -> str:
        """The queue whose workers can advance the job now."""
        validating = self.status is JobStatus.VALIDATING_FILES
        return self.validation_queue if validating else self.queue


def job_from_row(row: JobRow) -> Job:
    """Copy a row to a value."""
    fields = {
        name: getattr(row, name)
        for name in Job.__dataclass_fields__
        if name not in {"status", "error", "metadata"}
    }
    return Job(
        status=JobStatus(row.status),
        error=JobError.model_validate(row.error) if row.error else None,
        metadata=row.labels,
        **fields,
    )


ITS_TURN = "waiting for its turn"
"""``queue_reason`` of a job that any worker may take."""
_WAITS = "waiting for "


def shown_status(job: Job) -> JobStatus:
    """The status of a job for users: a campaign that waits for its jobs is running.

    It is queued then. Its worker gives it back while a job, an LLM or a script that it needs is
    busy, with a reason, and takes it again after that.
    """
    reason = job.queue_reason or ""
    is_amid_steps = (
        job.kind == JobKind.CAMPAIGN
        and job.status is JobStatus.QUEUED
        and job.started_at is not None
        and reason.startswith(_WAITS)
        and reason != ITS_TURN
    )
    return JobStatus.RUNNING if is_amid_steps else job.status


def has_shown_status(status: JobStatus) -> ColumnElement[bool]:
    """Whether `shown_status` of a row is ``status``; an index of statuses serves it."""
    running, queued = JobStatus.RUNNING.value, JobStatus.QUEUED.value
    if status is JobStatus.RUNNING:
        is_running = or_(JobRow.status == running, _is_amid_steps())
        return and_(JobRow.status.in_([running, queued]), is_running)
    has_status = JobRow.status == status.value
    return and_(has_status, not_(_is_amid_steps())) if status is JobStatus.QUEUED else has_status


def shown_status_column() -> ColumnElement[str]:
    """`shown_status` as a column."""
    return case((_is_amid_steps(), JobStatus.RUNNING.value), else_=JobRow.status)


def _is_amid_steps() -> ColumnElement[bool]:
    reason = JobRow.queue_reason
    return and_(
        JobRow.kind == JobKind.CAMPAIGN.value,
        JobRow.status == JobStatus.QUEUED.value,
        JobRow.started_at.is_not(None),
        reason.is_not(None),
        reason.startswith(_WAITS),
        reason != ITS_TURN,
    )


def is_overdue(session: Session, job: Job) -> bool:
    """Whether the deadline of a job has passed, by the database's clock."""
    return job.deadline_at is not None and job.deadline_at <= now(session)


def deadline_error(job: Job) -> JobError:
    """The failure of an overdue job."""
    seconds = job.request.get("deadline_seconds")
    return JobError(
        code=FailureCode.DEADLINE_EXCEEDED,
        message=f"the job did not end within its deadline of {seconds} s",
        param="deadline_seconds",
    )
