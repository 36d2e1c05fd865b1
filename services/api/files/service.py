"""Files in the database and on disk."""

import logging
import time
from contextlib import suppress
from pathlib import Path

from sqlalchemy import event, or_, select
from sqlalchemy.orm import Session

from services.api.files.upload import Upload
from services.contracts.data.files import File, FilePurpose
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import FileRow
from services.models.registry import get_file_row

logger = logging.getLogger(__name__)

ORPHANED_SECONDS = 7 * 24 * 3600.0
"""Far longer than a transaction takes in any gateway."""


def add_file(session: Session, artifacts: Artifacts, upload: Upload) -> File:
    """Add the row of an upload, whose id is its file name, and move its content into place."""
    created_at = time.time()
    after = upload.expires_after
    row = FileRow(
        id=upload.path.name,
        filename=upload.filename,
        purpose=upload.purpose.value,
        bytes=upload.bytes,
        sha256=upload.sha256,
        created_at=created_at,
        expires_at=created_at + after.seconds if after is not None else None,
    )
    session.add(row)
    session.flush()
    # Before the commit: a crash in between leaves an orphaned file, never a missing one. The mark
    # tells it from the files of another database, such as one that a backup has replaced.
    target, mark = artifacts.file(row.id), artifacts.file_mark(row.id)
    for path in (target, mark):
        path.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()
    upload.path.rename(target)
    event.listen(session, "after_commit", lambda _: _unmark(mark))
    if session.get_bind().dialect.name == "sqlite":
        # A server may have committed although its answer was lost: `remove_orphans` decides later.
        event.listen(session, "after_rollback", lambda _: _move_back(target, upload.path, mark))
    return file_view(row)


def _unmark(mark: Path) -> None:
    """Remove the mark of a stored row; `remove_orphans` does where the disk refuses."""
    with suppress(OSError):
        mark.unlink(missing_ok=True)


def _move_back(target: Path, path: Path, mark: Path) -> None:
    """Undo the move of a content whose row was rolled back; the request removes it."""
    with suppress(FileNotFoundError):
        target.rename(path)
    mark.unlink(missing_ok=True)


def remove_orphans(database: Database, artifacts: Artifacts) -> None:
    """Delete marked contents without a row, which a crash or a failed commit left of an upload or
    a deletion; those of the last week may be of a transaction that goes on in any gateway.

    A content without a mark has had a row, perhaps in another database of the home, and stays.
    """
    before = time.time() - ORPHANED_SECONDS
    marks = {mark.name: mark for mark in artifacts.file_mark("").glob("*")}
    with database.read() as session:
        known = set(session.scalars(select(FileRow.id).where(FileRow.id.in_(list(marks)))))
    for name, mark in marks.items():
        with suppress(FileNotFoundError):
            if name in known:
                mark.unlink()
            elif mark.stat().st_ctime < before:
                logger.warning("deleting the content of %s, which no file has any more", name)
                artifacts.file(name).unlink(missing_ok=True)
                mark.unlink()


def list_files(
    session: Session,
    purpose: FilePurpose | None,
    text: str | None,
    *,
    after: str | None,
    limit: int,
    newest_first: bool,
) -> tuple[list[File], bool]:
    """Return up to ``limit`` files and whether there are more."""
    query = select(FileRow)
    if purpose is not None:
        query = query.where(FileRow.purpose == purpose.value)
    if text is not None:
        named = FileRow.filename.icontains(text, autoescape=True)
        query = query.where(or_(named, FileRow.id.icontains(text, autoescape=True)))
    if after is not None:
        seq = get_file_row(session, after, param="after").seq
        query = query.where(FileRow.seq < seq if newest_first else FileRow.seq > seq)
    order = FileRow.seq.desc() if newest_first else FileRow.seq
    rows = session.scalars(query.order_by(order).limit(limit + 1)).all()
    return [file_view(row) for row in rows[:limit]], len(rows) > limit


def file_view(row: FileRow) -> File:
    """The wire view of a file."""
    return File(
        id=row.id,
        bytes=row.bytes,
        created_at=int(row.created_at),
        filename=row.filename,
        purpose=FilePurpose(row.purpose),
        sha256=row.sha256,
        expires_at=int(row.expires_at) if row.expires_at is not None else None,
    )
