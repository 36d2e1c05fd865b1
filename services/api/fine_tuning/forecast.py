"""What a fine-tune would need: memory by the model's shape, time by an earlier one."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from services.api.fine_tuning.memory import estimate_memory
from services.api.fine_tuning.service import checked_request
from services.api.settings import ApiSettings
from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest, PermissionDenied
from services.contracts.jobs import JobKind, JobStatus
from services.contracts.training.fine_tuning import CreateFineTuningJob, FineTuningForecast
from services.core.db.tables import FileRow, JobRow

SEARCHED_JOBS = 50


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
        seconds = (job.result or {}).get("train_seconds")
        earlier = CreateFineTuningJob.model_validate(job.request)
        if not seconds or _method(earlier) != _method(request):
            continue
        done = _work(session, earlier)
        if work and done:
            return seconds * work / done, job.id
    return None, None


def _method(request: CreateFineTuningJob) -> str:
    return "supervised" if request.method is None else request.method.type.value


def _settings(request: CreateFineTuningJob) -> JsonObject:
    """The settings of the method; none where the request does not say which it is."""
    if request.method is None:
        return {}
    settings: JsonObject = request.method.resolved()[request.method.type.value]
    return settings


def _work(session: Session, request: CreateFineTuningJob) -> float | None:
    """Steps of online training; else bytes of data times epochs. None where a file is unknown."""
    method = request.method
    if method is not None and method.online is not None:
        return float(method.online.hyperparameters.steps)
    files = [part.file for part in request.training_files or ()] or [request.training_file]
    known = session.execute(select(FileRow.id, FileRow.bytes).where(FileRow.id.in_(files)))
    sizes = {row.id: row.bytes for row in known}
    if any(file not in sizes for file in files):
        return None
    epochs = None if method is None or method.offline is None else method.offline.n_epochs
    size = float(sum(sizes[file] for file in files))
    return size * epochs if isinstance(epochs, int | float) else size
