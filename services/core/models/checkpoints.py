"""Checkpoints of fine-tuning jobs as models, named by job and step; they are not registered."""

import re

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.adaptation import TrainingType
from services.contracts.fine_tuning import CreateFineTuningJob
from services.contracts.models import ModelKind
from services.core.db.tables import CheckpointRow, JobRow, ModelRow

_NAME = re.compile(r"(?P<job>ftjob-[0-9a-f]{24}):step-(?P<step>[0-9]{1,9})")


_RESERVED = re.compile(r"ft:.*|ftjob-[0-9a-f]{24}(:.*)?", re.DOTALL)


def is_reserved_name(name: str) -> bool:
    """Whether only jobs may give a model this name: trained models and checkpoints."""
    return _RESERVED.fullmatch(name) is not None


def checkpoint_name(job_id: str, step: int) -> str:
    """The model name of a checkpoint."""
    return f"{job_id}:step-{step}"


def find_checkpoint(session: Session, name: str) -> ModelRow | None:
    """A checkpoint as a model, in a row without a session; None when none has this name.

    Its folder disappears when the job replaces it with later checkpoints.
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    row = session.get(CheckpointRow, (match["job"], int(match["step"])))
    job = session.scalar(select(JobRow).where(JobRow.id == match["job"]))
    if row is None or job is None:
        return None
    request = CreateFineTuningJob.model_validate(job.request)
    is_adapter = request.method and request.method.training_type is TrainingType.LORA
    parent = session.scalar(select(ModelRow).where(ModelRow.id == request.model))
    parent = parent or find_checkpoint(session, request.model)
    base = (parent.base if parent is not None else None) or request.model
    return ModelRow(
        id=name,
        kind=(ModelKind.ADAPTER if is_adapter else ModelKind.FULL).value,
        base=base if is_adapter else None,
        job_id=job.id,
        job_path=row.path,
        created_at=row.created_at,
    )
