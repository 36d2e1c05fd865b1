"""The data that a model was trained on, over all of its ancestors."""

from collections.abc import Iterator, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.errors import NotFound
from services.contracts.models.registered import Lineage
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.core.db.tables import FileRow, JobRow, ModelRow
from services.models.registry import LONGEST_CHAIN, get_model_row, parent_of

TRAINING = "training_file"
"""How the request fields begin that name training data; others name data for validation."""


def training_files(session: Session, model_id: str) -> list[FileRow]:
    """The uploaded files that a model and its ancestors were trained on, the latest first.

    Files that were deleted and data sets of a hub are not among them. A model that is unknown here
    has none, and one with a deleted ancestor those up to there.
    """
    names: dict[str, None] = {}
    for row in _ancestry(session, model_id):
        references = _references(session, row)
        names |= {references[field]: None for field in references if field.startswith(TRAINING)}
    rows = {row.id: row for row in session.scalars(select(FileRow).where(FileRow.id.in_(names)))}
    return [rows[name] for name in names if name in rows]


def _ancestry(session: Session, model_id: str) -> Iterator[ModelRow]:
    """The model, its parent, and so on."""
    try:
        row: ModelRow | None = get_model_row(session, model_id)
    except NotFound:
        return
    for _ in range(LONGEST_CHAIN):
        if row is None:
            return
        yield row
        row = parent_of(session, row)


def _references(session: Session, row: ModelRow) -> Mapping[str, str]:
    """The data of the job that made a model, by the request fields that name them."""
    if row.lineage:
        lineage = Lineage.model_validate(row.lineage)
        old = {TRAINING: lineage.training_file} if lineage.training_file else {}
        return {**old, **{field: data.file for field, data in lineage.files.items()}}
    job = session.scalar(select(JobRow).where(JobRow.id == row.job_id))
    # A registered model has no job, a checkpoint has no lineage yet.
    return {} if job is None else CreateFineTuningJob.model_validate(job.request).file_references
