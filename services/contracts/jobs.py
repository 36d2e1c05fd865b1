"""Common to jobs of every kind: status, progress, events, checkpoints."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictInt, StringConstraints, model_validator

from services.contracts.base import JsonObject, Metadata, Request, Resource
from services.contracts.kinds import JobKind as JobKind  # noqa: PLC0414 - read with the jobs
from services.contracts.validation import AtField


class JobStatus(StrEnum):
    """The status of a job. The last three are final."""

    VALIDATING_FILES = "validating_files"  # its input is checked before it is queued
    QUEUED = "queued"  # waiting for a worker or for a device; queue_reason says which
    RUNNING = "running"  # a worker holds its lease
    PAUSED = "paused"  # stopped at a checkpoint on request
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether the status can never change."""
        return self in {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELLED}


class RowProblem(Resource):
    """Why a row of a file cannot be used; rows are counted from 1, as lines are."""

    row: int = Field(description="Number of the row in its file, counted from 1.")
    message: str = Field(description="Reason why the row cannot be used.")


class JobError(Resource):
    """Why a job failed: a stable code, one line for the user, the request field at fault, what to
    do about it, and the first unusable rows of a file."""

    code: str = Field(description="Stable code of the error, for programs.")
    message: str = Field(description="Description of the error in one line.")
    param: str | None = Field(
        default=None, description="Request field at fault, as a dotted path; null: none."
    )
    hint: str | None = Field(
        default=None, description="Advice on what to do about the error; null: none."
    )
    rows: list[RowProblem] = Field(
        default_factory=list, description="First unusable rows of the file at fault."
    )


class Progress(Resource):
    """Progress of a running job, in steps of its kind (optimizer steps, samples)."""

    step: int = Field(
        description="Steps done: optimizer steps, samples, or another unit of the job's kind."
    )
    total_steps: int = Field(description="Steps of the whole job.")
    percent: float = Field(description="Share of the steps that are done, from 0 to 100.")
    eta_seconds: float | None = Field(
        default=None,
        description="Estimated seconds until the job ends; null while no rate is known, and while "
        "the job does not run.",
    )


class DownloadProgress(Resource):
    """Bytes of a hub model that a running job downloads."""

    bytes: int = Field(description="Bytes that are on the worker's host.")
    total_bytes: int = Field(description="Size of the whole download in bytes.")
    bytes_per_second: float | None = Field(
        default=None,
        description="Mean download rate of the last ten seconds; null once all bytes are here.",
    )
    eta_seconds: float | None = Field(
        default=None,
        description="Estimated seconds until the download ends, at its mean rate of the last ten "
        "seconds; null while no data arrive, and once all bytes are here.",
    )


class JobState(Resource):
    """The fields that jobs of every kind share."""

    id: str = Field(description="Id of the job, with the prefix of its kind.")
    name: str = Field(
        default="",
        description="Name for people, not unique: the one given in the request, in the metadata "
        "under `name` or as suffix, or one made of model, method and data.",
    )
    created_at: int = Field(description="Time of the submission, in Unix seconds.")
    started_at: int | None = Field(
        default=None,
        description="Time at which a worker first ran the job, in Unix seconds; null before.",
    )
    finished_at: int | None = Field(
        default=None, description="Time at which the job ended, in Unix seconds; null until then."
    )
    status: JobStatus = Field(
        description="Status of the job; succeeded, failed and cancelled are final."
    )
    phase: str | None = Field(
        default=None, description="Current activity of a running job, as text for people."
    )
    progress: Progress | None = Field(
        default=None,
        description="Progress in the steps of the job's kind, or of the validation in percent of "
        "its files; null before the length is known.",
    )
    download: DownloadProgress | None = Field(
        default=None, description="Download of a hub model; null while the job downloads none."
    )
    attempt: int = Field(default=0, description="Number of attempts so far.")
    queue_reason: str | None = Field(
        default=None,
        description="Reason why the job waits, in the queue or for the end of an outage; null: "
        "none is known.",
    )
    cancel_requested_at: int | None = Field(
        default=None,
        description="Time at which cancelling was requested, in Unix seconds; null: it was not.",
    )
    pause_requested_at: int | None = Field(
        default=None,
        description="Time at which pausing was requested, in Unix seconds; null: it was not, or "
        "the job has stopped since.",
    )
    deadline_at: int | None = Field(
        default=None,
        description="Time at which the job fails unless it has ended, in Unix seconds; null: none.",
    )
    error: JobError | None = Field(
        default=None, description="Error that made the job fail; null: it has not failed."
    )
    metadata: dict[str, str] | None = Field(
        default=None, description="Labels given in the request, by which jobs can be listed."
    )


class MainNumber(Resource):
    """The number that tells most about a job: its loss, reward or accuracy."""

    name: str = Field(description="Name of the metric, such as loss, reward or accuracy.")
    value: float = Field(description="Latest finite value of the metric.")
    not_finite: bool = Field(
        default=False,
        description="Whether the metric was NaN or infinite when it was last reported: `value` is "
        "then one of before.",
    )
    direction: Literal["maximize", "minimize"] = Field(
        default="maximize", description="Whether higher (`maximize`) or lower values are better."
    )
    ci95: tuple[float, float] | None = Field(
        default=None, description="95 % confidence interval, of a measurement that is complete."
    )
    share: bool = Field(
        default=False, description="Whether the value is a share, from 0 to 1; else a number."
    )
    recent: list[float] = Field(
        default_factory=list,
        description="Values from the first step to the latest, at most 40, for a small curve.",
    )
    nothing_learned: bool = Field(
        default=False,
        description="Whether at least half of the latest 20 steps of a training had nothing to "
        "learn from: groups of equal rewards, or a gradient of zero.",
    )


class JobReference(Resource):
    """A job that another one is about."""

    id: str = Field(description="Id of the referenced job.")
    name: str = Field(description="Name of the referenced job, for people.")
    kind: str = Field(description="Kind of the referenced job.")
    eta_seconds: float | None = Field(
        default=None,
        description="Estimated seconds until that job ends; null while that is not known.",
    )


class Job(JobState):
    """A job of any kind, as /v1/jobs lists it."""

    object: Literal["job"] = "job"
    kind: str = Field(description="Kind of the job, such as fine_tuning or evaluation.")
    model: str | None = Field(default=None, description="Model that the job works with.")
    method: str | None = Field(
        default=None, description="Method of a fine-tune, or benchmark of a measurement."
    )
    data: list[str] = Field(
        default_factory=list,
        description="Names of the files and hub datasets that the job works on, without validation "
        "files.",
    )
    output_model: str | None = Field(
        default=None, description="Model that the job made; null: none."
    )
    main_number: MainNumber | None = Field(
        default=None, description="Most telling number of the job: its loss, reward or accuracy."
    )
    waits_for: list[JobReference] = Field(
        default_factory=list,
        description="Running jobs that hold the devices which this queued job waits for, at most "
        "5, those that should end first at the beginning.",
    )
    priority: int = Field(
        default=0, description="Priority among queued jobs; higher ones run first."
    )
    run_seconds: float | None = Field(
        default=None,
        description="Total duration of the attempts, without pauses and waits; null before the "
        "first attempt, and for campaigns, which have none.",
    )
    notes: int = Field(default=0, description="Number of notes about the job and its trajectories.")


class Attempt(Resource):
    """An attempt at a job by a worker with devices. ``became`` is the job's status after it, and
    ``reason`` why it ended; both are null while it lasts."""

    id: str = Field(description="Id of the attempt.")
    object: Literal["job.attempt"] = "job.attempt"
    attempt: int = Field(description="Number of the attempt, counted from 1.")
    worker: str = Field(description="Id of the worker that claimed the job.")
    host: str = Field(description="Name of the worker's host.")
    devices: list[str] = Field(
        description="GPUs by UUID, or slots of the host, that the attempt held."
    )
    started_at: int = Field(description="Time of the claim, in Unix seconds.")
    ended_at: int | None = Field(
        default=None,
        description="Time at which the attempt ended, in Unix seconds; null while it lasts.",
    )
    became: JobStatus | None = Field(
        default=None, description="Status of the job after the attempt; null while it lasts."
    )
    reason: str | None = Field(
        default=None, description="Reason why the attempt ended; null while it lasts."
    )


class Event(Resource):
    """An event of a job."""

    id: str = Field(description="Id of the event.")
    object: str = Field(
        default="fine_tuning.job.event", description="Type of this object, in OpenAI's terms."
    )
    created_at: int = Field(description="Time of the event, in Unix seconds.")
    level: Literal["info", "warn", "error"] = Field(
        description="Level of the event: info, warn or error."
    )
    message: str = Field(description="Description of the event in one line.")
    type: Literal["message", "metrics"] = Field(
        description="Kind of the event: a message, or metrics of a step."
    )
    data: JsonObject | None = Field(
        default=None, description="Metrics by name, or details of the message; null: none."
    )


class FollowedEnd(Resource):
    """A followed job that will have no more events; its status is null if it does not exist."""

    job_id: str = Field(description="Id of the followed job.")
    status: JobStatus | None = Field(
        description="Final status of the job; null: it does not exist."
    )


class FollowedEvents(Resource):
    """New events of several jobs, those of each job in order, and the jobs that have ended."""

    object: Literal["list"] = "list"
    data: list[Event] = Field(description="New events, those of each job in order.")
    ended: list[FollowedEnd] = Field(description="Followed jobs that will have no more events.")
    cursor: str = Field(description="Cursor to continue with, as `after`, for the same jobs.")
    has_more: bool = Field(description="Whether more events are already there.")


MAX_STEP = 2**53
"""The largest step that a metric may have."""
POINTS_PER_BUCKET = 4
"""Points that a downsampled metric has at most for an interval of steps."""


class Curve(Resource):
    """Values of a metric at increasing steps."""

    steps: list[int] = Field(description="Steps in increasing order.")
    values: list[float] = Field(description="Values of the metric, one for each step.")
    times: list[float | None] = Field(
        description="Time of each report, in Unix seconds; null where it is unknown."
    )
    nonfinite_steps: list[int] = Field(
        default_factory=list,
        description="Steps whose value was NaN or infinite, which have no value; of a downsampled "
        "metric the first of each interval.",
    )
    nonfinite_count: int = Field(
        default=0, description="Number of all steps whose value was NaN or infinite."
    )
    interval_ends: list[int] = Field(
        default_factory=list,
        description="Last step of each interval of a downsampled metric, of which `steps` has only "
        "the ends and extremes; empty where it has all steps.",
    )
    interval_means: list[float] = Field(
        default_factory=list, description="Mean of the values in each interval."
    )
    interval_counts: list[int] = Field(
        default_factory=list, description="Number of steps with a value in each interval."
    )


class Curves(Resource):
    """The metrics of a job over its steps."""

    object: Literal["job.metrics"] = "job.metrics"
    metrics: dict[str, Curve] = Field(description="Curves by the name of the metric.")
    complete: bool = Field(default=True, description="Whether all requested steps are included.")


class Artifact(Resource):
    """A file of a job's folder; ``id`` is its path relative to the folder."""

    id: str = Field(description="Path of the file, relative to the job's folder.")
    object: Literal["job.artifact"] = "job.artifact"
    bytes: int = Field(description="Size of the file in bytes.")
    created_at: int = Field(description="Time at which the file was last written, in Unix seconds.")


class SubmittedRequest(Resource):
    """The request that created a job: posting ``body`` to ``path`` creates another such job.

    Fields that were left out have the values that were chosen for them. ``path`` is null where
    such a job is not posted as one, as are merges, exports and servings.
    """

    object: Literal["job.request"] = "job.request"
    path: str | None = Field(
        description="Path to which the body is posted; null for merges, exports, downloads and "
        "servings."
    )
    body: JsonObject = Field(
        description="Body of the request, with chosen values for omitted fields."
    )


class Worker(Resource):
    """A worker process with a recent heartbeat."""

    id: str = Field(description="Id of the worker.")
    object: Literal["worker"] = "worker"
    host: str = Field(description="Name of the worker's host.")
    queues: list[str] = Field(description="Queues that the worker serves.")
    gpus: list[str] = Field(description="GPUs that the worker sees, by UUID.")
    cpu_slots: int = Field(description="Number of CPU slots of the worker.")
    started_at: int = Field(description="Time at which the worker started, in Unix seconds.")
    heartbeat_at: int = Field(description="Time of the latest heartbeat, in Unix seconds.")


GpuIndex = Annotated[StrictInt, Field(ge=0, le=255)]
GpuUuid = Annotated[str, StringConstraints(pattern=r"^(GPU|MIG)-[0-9A-Za-z/-]{1,100}$")]


JobName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=120)]


class JobRequest(Request):
    """Fields of a request for a job of any kind."""

    FILE_FIELDS: ClassVar[tuple[str, ...]] = ()
    """The fields that name a file, as `files_at` reads them. Kinds whose files are named deeper in
    the request override `file_references` and `with_file_references`, too."""

    name: JobName | None = Field(
        default=None,
        description="Name of the job in lists, for people; null: made of model, method and data.",
    )
    gpus: StrictInt | None = Field(
        default=None,
        ge=0,
        le=64,
        description="Number of GPUs for the job; null: one if a worker has any.",
    )
    devices: list[GpuIndex | GpuUuid] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description="GPUs that the job waits for and uses, and no others: by UUID, or by index "
        "among those of the host that runs it. Null: any.",
    )
    priority: StrictInt = Field(
        default=0, ge=-100, le=100, description="Priority among queued jobs; higher ones run first."
    )
    deadline_seconds: StrictInt | None = Field(
        default=None,
        ge=1,
        le=315_360_000,
        description="Seconds from the creation or the retry of the job until it fails with "
        "deadline_exceeded; its checkpoints are kept. Null: no deadline.",
    )
    metadata: Metadata | None = Field(
        default=None,
        description="Labels of the job: up to 16 pairs of strings, by which jobs can be listed.",
    )

    @property
    def file_references(self) -> dict[str, str]:
        """The files that the request names, by field."""
        given = {name: getattr(self, name) for name in self.FILE_FIELDS}
        return {name: file for name, file in given.items() if file is not None}

    def with_file_references(self, ids: Mapping[str, str]) -> Self:
        """The request with other files in some of the fields of `file_references`."""
        return self.model_copy(update=dict(ids))

    @model_validator(mode="after")
    def _count_devices(self) -> Self:
        if self.devices is None:
            return self
        if len(set(self.devices)) != len(self.devices):
            raise AtField("devices", "devices names a GPU twice")
        if self.gpus not in {None, len(self.devices)}:
            raise AtField(
                "gpus", f"devices names {len(self.devices)} GPUs, but gpus is {self.gpus}"
            )
        self.gpus = len(self.devices)
        return self


def files_at(value: object, path: str) -> Iterator[str]:
    """The files that a field of a request names, in a body as it is stored.

    ``path`` has a ``*`` for every element of a list and every value of an object, as in
    ``training_files.*.file``. The body may be one that this version would refuse; what has another
    shape names no file.
    """
    if isinstance(value, str):
        yield from [value] if value else []
        return
    name, _, below = path.partition(".")
    if name == "*":
        inner = value.values() if isinstance(value, Mapping) else value
        for each in inner if isinstance(inner, Iterable) else ():
            yield from files_at(each, below)
    elif isinstance(value, Mapping) and name in value:
        yield from files_at(value[name], below)
