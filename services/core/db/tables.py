"""The tables. Times are seconds since the epoch (UTC)."""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

Sequence = BigInteger().with_variant(Integer, "sqlite")
"""An autoincrementing key; SQLite increments only columns of type INTEGER."""


class Base(DeclarativeBase):
    """Base of all tables."""

    type_annotation_map = {dict[str, Any]: JSON, float: Float, int: BigInteger}  # noqa: RUF012 - read by SQLAlchemy


class JobRow(Base):
    """One job of any kind. ``epoch`` grows with every claim and guards every later write."""

    __tablename__ = "jobs"

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    name: Mapped[str | None] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(String(32))
    status: Mapped[str] = mapped_column(String(20))
    queue: Mapped[str] = mapped_column(String(64))
    validation_queue: Mapped[str] = mapped_column(String(64))
    priority: Mapped[int]
    gpus: Mapped[int | None]
    request: Mapped[dict[str, Any]]
    labels: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    phase: Mapped[str | None] = mapped_column(String(64))
    step: Mapped[int | None]
    total_steps: Mapped[int | None]
    eta_seconds: Mapped[float | None]
    download: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    queue_reason: Mapped[str | None] = mapped_column(Text)
    memory_estimate: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    attempt: Mapped[int] = mapped_column(default=0)
    losses: Mapped[int] = mapped_column(default=0)
    progress: Mapped[int] = mapped_column(default=0, server_default="0")
    not_before: Mapped[float | None]
    epoch: Mapped[int] = mapped_column(default=0)
    owner: Mapped[str | None] = mapped_column(String(200))
    lease_expires_at: Mapped[float | None]
    cancel_requested_at: Mapped[float | None]
    pause_requested_at: Mapped[float | None]
    deadline_at: Mapped[float | None]
    reports_offset: Mapped[int] = mapped_column(default=0)
    event_count: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[float]
    updated_at: Mapped[float]
    started_at: Mapped[float | None]
    finished_at: Mapped[float | None]

    __table_args__ = (
        Index("jobs_by_queue", "status", "queue", "priority", "seq"),
        Index("jobs_by_kind", "kind", "seq"),
        Index("jobs_by_status", "status", "seq"),
        Index("jobs_by_lease", "lease_expires_at"),
    )


class EventRow(Base):
    """An event of a job, numbered from 1; without gaps until older metrics are thinned."""

    __tablename__ = "events"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    created_at: Mapped[float]
    level: Mapped[str] = mapped_column(String(8))
    type: Mapped[str] = mapped_column(String(16))
    message: Mapped[str] = mapped_column(Text)
    data: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class CheckpointRow(Base):
    """A checkpoint of a job, by the step it was written at."""

    __tablename__ = "checkpoints"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    path: Mapped[str] = mapped_column(Text)
    metrics: Mapped[dict[str, Any]]
    created_at: Mapped[float]


class OutboxRow(Base):
    """A wake-up that still has to be sent to the broker."""

    __tablename__ = "outbox"

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    queue: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[float]


class IdempotencyRow(Base):
    """The first response to a request with an Idempotency-Key."""

    __tablename__ = "idempotency"

    principal: Mapped[str] = mapped_column(String(80), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(String(64))
    response: Mapped[dict[str, Any]]
    created_at: Mapped[float] = mapped_column(index=True)


class ResourceLeaseRow(Base):
    """A device (GPU by UUID, or a CPU slot of a host) held by one claim of a job."""

    __tablename__ = "resource_leases"

    resource_id: Mapped[str] = mapped_column(String(200), primary_key=True)
    host: Mapped[str] = mapped_column(String(200), index=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)
    epoch: Mapped[int]
    acquired_at: Mapped[float]


class AttemptRow(Base):
    """One claim of a job for work; what it ``became`` is null while it lasts."""

    __tablename__ = "attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    epoch: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attempt: Mapped[int]
    worker: Mapped[str] = mapped_column(String(200))
    host: Mapped[str] = mapped_column(String(200))
    devices: Mapped[list[str]] = mapped_column(JSON)
    started_at: Mapped[float]
    ended_at: Mapped[float | None]
    became: Mapped[str | None] = mapped_column(String(20))
    reason: Mapped[str | None] = mapped_column(Text)


class WorkerRow(Base):
    """A worker process, as of its last heartbeat."""

    __tablename__ = "workers"

    id: Mapped[str] = mapped_column(String(200), primary_key=True)
    host: Mapped[str] = mapped_column(String(200))
    queues: Mapped[list[str]] = mapped_column(JSON)
    gpus: Mapped[list[str]] = mapped_column(JSON)
    gpu_bytes: Mapped[list[int] | None] = mapped_column(JSON(none_as_null=True))
    cpu_slots: Mapped[int]
    started_at: Mapped[float]
    heartbeat_at: Mapped[float] = mapped_column(index=True)


class FileRow(Base):
    """An uploaded file; its content is stored in the artifacts under the same id."""

    __tablename__ = "files"

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    filename: Mapped[str] = mapped_column(Text)
    purpose: Mapped[str] = mapped_column(String(32))
    bytes: Mapped[int]
    sha256: Mapped[str] = mapped_column(String(64), index=True)
    created_at: Mapped[float]
    expires_at: Mapped[float | None]


class DatasetRow(Base):
    """A data set for campaigns: a file under a name, and what its rows are like."""

    __tablename__ = "datasets"

    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    file_id: Mapped[str] = mapped_column(String(64), index=True)
    description: Mapped[str] = mapped_column(Text)
    license: Mapped[str | None] = mapped_column(String(200))
    source: Mapped[str | None] = mapped_column(Text)
    statistics: Mapped[dict[str, Any]]
    created_at: Mapped[float]


class ModelRow(Base):
    """A model by name, and the source of its weights: a folder, a hub repository or a job."""

    __tablename__ = "models"

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(300), unique=True)
    kind: Mapped[str] = mapped_column(String(16))
    base: Mapped[str | None] = mapped_column(String(300))
    folder: Mapped[str | None] = mapped_column(Text)  # relative to the model root
    hub_id: Mapped[str | None] = mapped_column(String(200))
    revision: Mapped[str | None] = mapped_column(String(100))
    job_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id"))
    job_path: Mapped[str | None] = mapped_column(Text)  # relative to the job's folder
    lineage: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[float]


class CheckpointPermissionRow(Base):
    """A project that may use a checkpoint or trained model, as OpenAI's API records it."""

    __tablename__ = "checkpoint_permissions"
    __table_args__ = (UniqueConstraint("checkpoint", "project_id"),)

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    checkpoint: Mapped[str] = mapped_column(String(300))
    project_id: Mapped[str] = mapped_column(String(128))
    created_at: Mapped[float]


class NoteRow(Base):
    """A user's note about a job, or about one of its trajectories."""

    __tablename__ = "notes"
    __table_args__ = (Index("notes_by_job", "job_id", "trajectory_id"),)

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    trajectory_id: Mapped[str | None] = mapped_column(String(200))
    text: Mapped[str] = mapped_column(Text)
    created_at: Mapped[float]


class UsageRow(Base):
    """What a key has used of a served model on a day (UTC, as ISO 8601 writes it)."""

    __tablename__ = "usage"

    day: Mapped[str] = mapped_column(String(10), primary_key=True)
    principal: Mapped[str] = mapped_column(String(64), primary_key=True)
    model: Mapped[str] = mapped_column(String(300), primary_key=True)
    requests: Mapped[int]
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]


class CampaignRow(Base):
    """What a campaign has beside its row in ``jobs``: how often it was rewound."""

    __tablename__ = "campaigns"

    id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    rewinds: Mapped[int] = mapped_column(default=0, server_default="0")


class CampaignWaitRow(Base):
    """A job whose end a campaign waits for."""

    __tablename__ = "campaign_waits"

    campaign_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    job_id: Mapped[str] = mapped_column(String(64), primary_key=True)


class CampaignStepRow(Base):
    """A step of a campaign's loop; without ``output`` while it is under way.

    ``rewinds`` is how often the campaign had been rewound when it began.
    """

    __tablename__ = "campaign_steps"

    campaign_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    loop: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    output: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    started_at: Mapped[float]
    finished_at: Mapped[float | None]
    rewinds: Mapped[int] = mapped_column(default=0, server_default="0")


class CampaignScriptRow(Base):
    """A data script that may ask LLMs, by its id in the sandbox, and what it has used.

    ``refusal`` is the limit at which it was refused an answer. It asks until ``ended_at``.
    """

    __tablename__ = "campaign_scripts"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    campaign_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)
    calls: Mapped[int] = mapped_column(default=0)
    prompt_tokens: Mapped[int] = mapped_column(default=0)
    completion_tokens: Mapped[int] = mapped_column(default=0)
    cost: Mapped[float] = mapped_column(default=0.0)
    refusal: Mapped[str | None] = mapped_column(String(32))
    started_at: Mapped[float]
    ended_at: Mapped[float | None]


class CampaignEffectRow(Base):
    """Something a step did outside the database, recorded so that it is done once: an answer of
    the LLM, a run of a script, an upload or the creation of the job ``job_id``."""

    __tablename__ = "campaign_effects"

    campaign_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    loop: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    step: Mapped[str] = mapped_column(String(32), primary_key=True)
    key: Mapped[str] = mapped_column(String(80), primary_key=True)
    seq: Mapped[int]
    response: Mapped[dict[str, Any]]
    job_id: Mapped[str | None] = mapped_column(String(64), index=True)
    prompt_tokens: Mapped[int]
    completion_tokens: Mapped[int]
    created_at: Mapped[float]


class WebhookRow(Base):
    """An endpoint that events are sent to; requests are signed with its ``secret``."""

    __tablename__ = "webhooks"

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    url: Mapped[str] = mapped_column(Text)
    events: Mapped[list[str]] = mapped_column(JSON)
    format: Mapped[str] = mapped_column(String(16))
    secret: Mapped[str] = mapped_column(String(100))
    created_at: Mapped[float]


class WebhookDeliveryRow(Base):
    """An event for one webhook; due at ``next_attempt_at``, which is null once it has ended."""

    __tablename__ = "webhook_deliveries"

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    webhook_id: Mapped[str] = mapped_column(String(64))
    event_id: Mapped[str] = mapped_column(String(64))
    event: Mapped[dict[str, Any]]
    status: Mapped[str] = mapped_column(String(16))
    attempts: Mapped[int] = mapped_column(default=0)
    last_error: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[float]
    next_attempt_at: Mapped[float | None]

    __table_args__ = (
        Index("webhook_deliveries_due", "next_attempt_at"),
        Index("webhook_deliveries_by_webhook", "webhook_id", "seq"),
    )


class AlertRow(Base):
    """A rule that held, for a job or for the host; ``resolved_at`` is null while it holds."""

    __tablename__ = "alerts"

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    rule: Mapped[str] = mapped_column(String(32))
    job_id: Mapped[str | None] = mapped_column(String(64))
    message: Mapped[str] = mapped_column(Text)
    value: Mapped[float | None]
    bound: Mapped[float | None]
    raised_at: Mapped[float]
    resolved_at: Mapped[float | None]

    __table_args__ = (Index("alerts_by_job", "job_id"), Index("alerts_open", "resolved_at"))


class ResponseRow(Base):
    """A response of a model and the request for it. ``attempt`` grows with every run that takes it
    and guards every later write; ``bytes`` is the size of all that is stored of it."""

    __tablename__ = "responses"

    seq: Mapped[int] = mapped_column(Sequence, primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    principal: Mapped[str] = mapped_column(String(64))
    status: Mapped[str] = mapped_column(String(20))
    background: Mapped[bool]
    streamed: Mapped[bool]
    previous_id: Mapped[str | None] = mapped_column(String(64))
    request: Mapped[dict[str, Any]]
    input: Mapped[list[Any]] = mapped_column(JSON)
    output: Mapped[list[Any]] = mapped_column(JSON)
    usage: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    error: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    incomplete: Mapped[str | None] = mapped_column(String(40))
    attempt: Mapped[int] = mapped_column(default=0)
    owner: Mapped[str | None] = mapped_column(String(200))
    lease_expires_at: Mapped[float | None]
    bytes: Mapped[int]
    created_at: Mapped[float]
    finished_at: Mapped[float | None]

    __table_args__ = (
        Index("responses_by_status", "status", "seq"),
        Index("responses_by_age", "created_at"),
    )


class ResponseEventRow(Base):
    """Consecutive events of a background response that is streamed, as lines of JSON."""

    __tablename__ = "response_events"

    response_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    first: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    last: Mapped[int]
    lines: Mapped[str] = mapped_column(Text)
