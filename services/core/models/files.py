"""Looking up uploaded files."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.errors import InvalidRequest
from services.core.artifacts import Artifacts, SourceFile
from services.core.db.tables import FileRow


def get_file_row(session: Session, file_id: str, param: str = "file") -> FileRow:
    """The row of a file that a job names; raises `InvalidRequest` when the file was deleted."""
    row = session.scalar(select(FileRow).where(FileRow.id == file_id))
    if row is None:
        raise InvalidRequest(f"file {file_id!r} is gone", param=param)
    return row


def source_of(row: FileRow, artifacts: Artifacts) -> SourceFile:
    """Where the content of a file is."""
    return SourceFile(path=artifacts.file(row.id), filename=row.filename)


def get_source_file(
    session: Session, artifacts: Artifacts, file_id: str, param: str = "file"
) -> SourceFile:
    """Where the content of a file is; raises `InvalidRequest` when the file was deleted."""
    return source_of(get_file_row(session, file_id, param), artifacts)
