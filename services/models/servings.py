"""The servings of models: which one loads a model, and whether it answers now."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobKind, JobStatus
from services.contracts.serving import CreateServing
from services.core.artifacts import adapter_rank
from services.core.db.tables import JobRow
from services.jobs.job import Job, job_from_row
from services.jobs.queues import SERVE
from services.jobs.workers import live_workers
from services.models.registry import ResolvedModel


def loaded_model(session: Session, model: ResolvedModel) -> str:
    """Name of the model that the engine loads: the model itself, or the base of an adapter that
    shares its engine."""
    if model.adapter is None or model.needs_own_engine:
        return model.id
    most = shared_rank(session, model.base)
    # One that is merged may be of a kind that has no rank.
    fits = most is None or (most > 0 and adapter_rank(model.adapter) <= most)
    return model.base if fits else model.id


def shared_rank(session: Session, base: str) -> int | None:
    """The largest rank of an adapter that shares the engine of its base: 0 if none does, None if
    all do.

    Without a GPU vLLM gathers an adapter's matrices for every token. Where no worker has one, an
    adapter is therefore merged, which gives it an engine of its own, unless the base is deployed
    with room for it. Until a worker is known, one with a GPU is expected.
    """
    workers = [row for row in live_workers(session) if SERVE.work in row.queues]
    if not workers or any(row.gpus for row in workers):
        return None
    deployed = deployment(session, base)
    return (deployed.engine.max_lora_rank or 0) if deployed is not None else 0


def deployment(session: Session, loaded: str) -> CreateServing | None:
    """What the latest serving of a loaded model was asked for, which holds for the next one, too;
    None without one, or when the model was undeployed since.

    The rank that an engine turned out too small for holds no more.
    """
    last = serving_of(session, loaded)
    if last is None or last.cancel_requested_at is not None:
        return None
    request = CreateServing.model_validate(last.request)
    if last.result and last.result.get("outgrown"):
        engine = request.engine.model_copy(update={"max_lora_rank": None})
        return request.model_copy(update={"engine": engine})
    return request


def serving_of(session: Session, loaded: str) -> Job | None:
    """The unfinished serving of a loaded model, or else the last finished one."""
    query = (
        select(JobRow)
        .where(JobRow.kind == JobKind.SERVE, JobRow.request["model"].as_string() == loaded)
        .order_by(JobRow.seq.desc())
    )
    final = [status.value for status in JobStatus if status.is_final]
    row = session.scalar(query.where(JobRow.status.not_in(final)).limit(1))
    row = row or session.scalar(query.limit(1))
    return job_from_row(row) if row is not None else None
