"""The data that a model was trained on, over all of its ancestors."""

from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.errors import NotFound
from services.contracts.fine_tuning import CreateFineTuningJob
from services.contracts.models import Lineage
from services.core.db.tables import FileRow, JobRow, ModelRow
from services.core.registry import get_model_row

LONGEST_CHAIN = 100
TRAINING = "training_file"
"""How the request fields begin that name training data; others name data for validation."""


def training_files(session: Session, model_id: str) -> list[FileRow]:
    """The uploaded files that a model and its ancestors were trained on, the latest first.

    Files that were deleted and data sets of a hub are not among them. A model that is unknown here,
    or whose parent was deleted, has the files up to there.
    """
    names: dict[str, None] = {}
    model: str | None = model_id
    for _ in range(LONGEST_CHAIN):
        if model is None:
            break
        try:
            row = get_model_row(session, model)
        except NotFound:
            break
        names |= dict.fromkeys(_named_by(session, row))
        model = _parent(session, row)
    rows = session.scalars(select(FileRow).where(FileRow.id.in_(names)))
    return sorted(rows, key=lambda row: list(names).index(row.id))


def _named_by(session: Session, row: ModelRow) -> Iterator[str]:
    """The references to training data of the job that made a model."""
    if row.lineage:
        lineage = Lineage.model_validate(row.lineage)
        references = {name: data.file for name, data in lineage.files.items()}
        if lineage.training_file is not None:
            references.setdefault(TRAINING, lineage.training_file)
    elif (request := _request(session, row)) is not None:  # a checkpoint
        references = request.file_references
    else:
        return
    for name, reference in references.items():
        if name.startswith(TRAINING):
            yield reference


def _parent(session: Session, row: ModelRow) -> str | None:
    if row.lineage:
        return Lineage.model_validate(row.lineage).parent
    request = _request(session, row)
    return None if request is None else request.model


def _request(session: Session, row: ModelRow) -> CreateFineTuningJob | None:
    if row.job_id is None:
        return None
    job = session.scalar(select(JobRow).where(JobRow.id == row.job_id))
    return None if job is None else CreateFineTuningJob.model_validate(job.request)
