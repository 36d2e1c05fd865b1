"""Registered data sets in the database."""

import time

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from services.contracts.data.datasets import Dataset, DatasetStatistics, RegisterDataset
from services.contracts.errors import Conflict, InvalidRequest, NotFound
from services.core.db.tables import DatasetRow
from services.models.registry import get_file_row, require_file

MAX_DATASET_BYTES = 2 << 30
"""Per data set, whose whole file is read when it is registered."""


def check_file(session: Session, body: RegisterDataset) -> None:
    """Raise `InvalidRequest` for a file that does not exist or is too large."""
    if require_file(session, body.file, "file").bytes > MAX_DATASET_BYTES:
        limit = f"{MAX_DATASET_BYTES >> 30} GiB"
        raise InvalidRequest(f"the file is larger than {limit}", param="file")


def register_dataset(
    session: Session, body: RegisterDataset, statistics: DatasetStatistics
) -> Dataset:
    """Register a data set; raises `Conflict` where the name is taken."""
    if _find(session, body.name) is not None:
        raise Conflict(f"data set {body.name!r} is already registered", code="dataset_exists")
    require_file(session, body.file, "file")
    row = DatasetRow(
        name=body.name,
        file_id=body.file,
        description=body.description,
        license=body.license,
        source=body.source,
        statistics=statistics.model_dump(mode="json"),
        created_at=time.time(),
    )
    session.add(row)
    session.flush()
    return dataset_view(session, row)


def list_datasets(session: Session) -> list[DatasetRow]:
    """All data sets by name."""
    return list(session.scalars(select(DatasetRow).order_by(DatasetRow.name)))


def get_dataset(session: Session, name: str) -> DatasetRow:
    """A data set by name; raises `NotFound`."""
    row = _find(session, name)
    if row is None:
        raise NotFound(f"no data set {name!r}", param="name", code="dataset_not_found")
    return row


def remove_dataset(session: Session, name: str) -> None:
    """Unregister a data set; its file is kept."""
    get_dataset(session, name)
    session.execute(delete(DatasetRow).where(DatasetRow.name == name))


def dataset_view(session: Session, row: DatasetRow) -> Dataset:
    """The wire view of a data set."""
    return Dataset(
        id=row.name,
        created_at=int(row.created_at),
        file=row.file_id,
        bytes=get_file_row(session, row.file_id).bytes,
        description=row.description,
        license=row.license,
        source=row.source,
        statistics=DatasetStatistics.model_validate(row.statistics),
    )


def _find(session: Session, name: str) -> DatasetRow | None:
    return session.scalar(select(DatasetRow).where(DatasetRow.name == name))
