"""What a fine-tune would need: memory by the model's shape, time by an earlier one."""

from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from services.api.fine_tuning.memory import estimate_memory
from services.api.fine_tuning.service import checked_request
from services.api.settings import ApiSettings
from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.jobs import JobKind, JobStatus
from services.contracts.training.fine_tuning import CreateFineTuningJob, FineTuningForecast
from services.contracts.training.offline import AUTO_EPOCHS
from services.core.db.tables import FileRow, JobRow

SEARCHED_JOBS = 50

_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps")


def forecast(
    session: Session, body: CreateFineTuningJob, settings: ApiSettings
) -> FineTuningForecast:
    """The forecast of a request, or why the creation of the job would refuse it."""
    try:
        request = checked_request(session, body, settings)
        memory = estimate_memory(session, request, settings)
    except (InvalidRequest, PermissionDenied) as error:
        return FineTuningForecast(
            method=_method(body), settings=_settings(body), problem=error.message
        )
    waiting = select(func.count()).where(
        JobRow.kind == JobKind.FINE_TUNING.value, JobRow.status == JobStatus.QUEUED.value
    )
    seconds, based_on = _time(session, request)
    return FineTuningForecast(
        method=_method(request),
        settings=_settings(request),
        memory_estimate=memory,
        seconds=seconds,
        based_on=based_on,
        queued_jobs=session.scalar(waiting) or 0,
    )


def _time(session: Session, request: CreateFineTuningJob) -> tuple[float | None, str | None]:
    """The training time of the newest comparable job, in proportion to the work; and its id."""
    work = _work(session, request)
    jobs = session.scalars(
        select(JobRow)
        .where(
            JobRow.kind == JobKind.FINE_TUNING.value,
            JobRow.status == JobStatus.SUCCEEDED.value,
            JobRow.request["model"].as_string() == request.model,
        )
        .order_by(JobRow.seq.desc())
        .limit(SEARCHED_JOBS)
    )
    for job in jobs:
        earlier = CreateFineTuningJob.model_validate(job.request)
        seconds = _whole_seconds(job, earlier)
        if not seconds or _method(earlier) != _method(request):
            continue
        done = _work(session, earlier)
        if work and done and work.unit == done.unit:
            return seconds * work.amount / done.amount, job.id
    return None, None


def _whole_seconds(job: JobRow, request: CreateFineTuningJob) -> float | None:
    """The seconds that all planned steps of a job take, also if it stopped early; None where its
    result does not tell."""
    result = job.result or {}
    seconds = result.get("train_seconds")
    if not seconds or (request.method is not None and request.method.online is not None):
        return seconds
    if (timed := result.get("timed_steps")) is not None:
        return float(seconds / timed * result["planned_steps"]) if timed else None
    # Of an earlier version: the seconds since its last start.
    return seconds if job.attempt <= 1 else None


def _method(request: CreateFineTuningJob) -> str:
    return "supervised" if request.method is None else request.method.type.value


def _settings(request: CreateFineTuningJob) -> JsonObject:
    """The settings of the method; none where the request does not say which it is."""
    if request.method is None:
        return {}
    settings: JsonObject = request.method.resolved()[request.method.type.value]
    return settings


class _Work(NamedTuple):
    """How much a job trains; jobs of the same unit compare."""

    unit: object
    amount: float


def _work(session: Session, request: CreateFineTuningJob) -> _Work | None:
    """Steps of online training; else bytes of data times epochs. Jobs of some rows or of a number
    of steps compare with those of the same files alone: how long their rows are is not known.
    None where a file is unknown."""
    method = request.method
    if method is not None and method.online is not None:
        return _Work("steps", float(method.online.hyperparameters.steps))
    parts = [(part.file, part.num_samples) for part in request.training_files or ()]
    parts = parts or [(request.training_file, None)]
    files = [file for file, _ in parts]
    known = session.execute(select(FileRow.id, FileRow.bytes).where(FileRow.id.in_(files)))
    sizes = {row.id: row.bytes for row in known}
    if any(file not in sizes for file in files):
        return None
    settings = None if method is None else method.offline
    arguments = {} if settings is None else settings.llamafactory
    asked = "auto" if settings is None else settings.n_epochs
    epochs = AUTO_EPOCHS if asked == "auto" else float(asked)
    steps = arguments.get("max_steps")
    if isinstance(steps, int) and steps > 0:
        batch = (settings and settings.batch_size, *map(arguments.get, _BATCH))
        return _Work((*parts, batch), float(steps))
    rows = tuple(arguments.get(name) or None for name in ("max_samples", "val_size"))
    if any(rows) or any(samples for _, samples in parts):
        return _Work((*parts, rows), epochs)
    return _Work("bytes", sum(sizes[file] for file in files) * epochs)
