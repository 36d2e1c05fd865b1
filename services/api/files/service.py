"""Files in the database and on disk."""

import time
from pathlib import Path

from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from services.api.files.upload import Upload
from services.contracts.errors import Conflict
from services.contracts.files import File, FilePurpose
from services.contracts.jobs import JobStatus
from services.core.artifacts import Artifacts
from services.core.db.tables import DatasetRow, FileRow, JobRow
from services.core.registry import get_file_row

_UNFINISHED = [status.value for status in JobStatus if not status.is_final]


def add_file(session: Session, artifacts: Artifacts, upload: Upload) -> File:
    """Record an upload under the name of its path, and give its content its final place."""
    row = FileRow(
        id=upload.path.name,
        filename=upload.filename,
        purpose=upload.purpose.value,
        bytes=upload.bytes,
        sha256=upload.sha256,
        created_at=time.time(),
    )
    session.add(row)
    session.flush()
    # Before the commit: a crash between the two leaves an unknown file, never a missing one.
    target = artifacts.file(row.id)
    target.parent.mkdir(parents=True, exist_ok=True)
    upload.path.rename(target)
    return file_view(row)


def list_files(
    session: Session,
    purpose: FilePurpose | None,
    *,
    after: str | None,
    limit: int,
    newest_first: bool,
) -> tuple[list[File], bool]:
    """Return up to ``limit`` files and whether there are more."""
    query = select(FileRow)
    if purpose is not None:
        query = query.where(FileRow.purpose == purpose.value)
    if after is not None:
        seq = get_file_row(session, after, param="after").seq
        query = query.where(FileRow.seq < seq if newest_first else FileRow.seq > seq)
    order = FileRow.seq.desc() if newest_first else FileRow.seq
    rows = session.scalars(query.order_by(order).limit(limit + 1)).all()
    return [file_view(row) for row in rows[:limit]], len(rows) > limit


def remove_file(session: Session, artifacts: Artifacts, file_id: str) -> Path:
    """Forget a file and return the path to remove; raise `Conflict` while a job needs it."""
    row = get_file_row(session, file_id)
    fields = ("training_file", "validation_file", "file", "input_file_id")
    several = ("training_files", "validation_files")
    needed = session.scalar(
        select(JobRow.id).where(
            JobRow.status.in_(_UNFINISHED),
            or_(
                *(JobRow.request[field].as_string() == file_id for field in fields),
                *(JobRow.request[field].as_string().contains(f'"{file_id}"') for field in several),
            ),
        )
    )
    if needed is not None:
        raise Conflict(f"job {needed} still needs {file_id}", code="file_in_use")
    dataset = session.scalar(select(DatasetRow.name).where(DatasetRow.file_id == file_id))
    if dataset is not None:
        raise Conflict(f"data set {dataset} still needs {file_id}", code="file_in_use")
    session.execute(delete(FileRow).where(FileRow.seq == row.seq))
    return artifacts.file(file_id)


def file_view(row: FileRow) -> File:
    """A file as the wire shows it."""
    return File(
        id=row.id,
        bytes=row.bytes,
        created_at=int(row.created_at),
        filename=row.filename,
        purpose=FilePurpose(row.purpose),
        sha256=row.sha256,
    )
