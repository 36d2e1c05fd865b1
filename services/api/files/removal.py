"""Deletion of files that are not in use."""

from contextlib import suppress

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from services.contracts.errors import Conflict
from services.contracts.jobs import JobStatus
from services.core.artifacts import Artifacts
from services.core.db.tables import DatasetRow, FileRow, JobRow
from services.jobs.files import names_file
from services.models.registry import get_file_row

_UNFINISHED = [status.value for status in JobStatus if not status.is_final]


def remove_file(session: Session, artifacts: Artifacts, file_id: str) -> None:
    """Delete a file's row; raises `Conflict` while it is in use.

    `remove_content` follows the commit. The mark lets `remove_orphans` do it after a crash; a full
    disk, on which none can be made, must not keep files from being deleted.
    """
    row = get_file_row(session, file_id)
    needed = session.scalar(
        select(JobRow.id).where(JobRow.status.in_(_UNFINISHED), names_file(file_id))
    )
    if needed is not None:
        raise Conflict(f"job {needed} still needs {file_id}", code="file_in_use")
    dataset = session.scalar(select(DatasetRow.name).where(DatasetRow.file_id == file_id))
    if dataset is not None:
        raise Conflict(f"data set {dataset} still needs {file_id}", code="file_in_use")
    mark = artifacts.file_mark(file_id)
    with suppress(OSError):
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    session.execute(delete(FileRow).where(FileRow.seq == row.seq))


def remove_content(artifacts: Artifacts, file_id: str) -> None:
    """Delete the content of a file whose row is gone, then its mark."""
    artifacts.file(file_id).unlink(missing_ok=True)
    artifacts.file_mark(file_id).unlink(missing_ok=True)
