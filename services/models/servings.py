"""The servings of models: which one loads a model, and whether it answers now."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobKind, JobStatus
from services.contracts.serving import CreateServing
from services.core.db.tables import JobRow
from services.jobs.job import Job, job_from_row
from services.jobs.queues import SERVE
from services.jobs.workers import live_workers
from services.models.registry import ResolvedModel


def loaded_model(session: Session, model: ResolvedModel) -> str:
    """Name of the model that the engine loads: the model itself, or the base of an adapter that
    shares its engine."""
    if model.adapter is None or model.needs_own_engine or not adapters_share(session, model.base):
        return model.id
    return model.base


def adapters_share(session: Session, base: str) -> bool:
    """Whether adapters share the engine of their base.

    Without a GPU vLLM gathers an adapter's matrices for every token. Where no worker has one, an
    adapter is therefore merged, which gives it an engine of its own, unless the base is deployed
    with room for adapters. Until a worker is known, one with a GPU is expected.
    """
    workers = [row for row in live_workers(session) if SERVE.work in row.queues]
    if not workers or any(row.gpus for row in workers):
        return True
    serving = serving_of(session, base)
    if serving is None or serving.status.is_final:
        return False
    return CreateServing.model_validate(serving.request).engine.max_lora_rank is not None


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
