"""The servings of models: which one loads a model, and whether it answers now."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobKind, JobStatus
from services.core.db.tables import JobRow
from services.jobs.job import Job, job_from_row
from services.models.registry import ResolvedModel


def loaded_model(model: ResolvedModel) -> str:
    """Name of the model that the engine loads: the model itself, or the base of an adapter."""
    return model.id if model.adapter is None or model.needs_own_engine else model.base


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
