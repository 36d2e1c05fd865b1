"""Files in the database and on disk."""

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

ORPHANED_SECONDS = 7 * 24 * 3600.0


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
    # Before the commit: a crash in between leaves an orphaned file, never a missing one.
    target = artifacts.file(row.id)
    target.parent.mkdir(parents=True, exist_ok=True)
    upload.path.rename(target)
    if session.get_bind().dialect.name == "sqlite":
        # A server may have committed although its answer was lost: `remove_orphans` decides later.
        event.listen(session, "after_rollback", lambda _: _move_back(target, upload.path))
    return file_view(row)


def _move_back(target: Path, path: Path) -> None:
    """Undo the move of a content whose row was rolled back; the request removes it."""
    with suppress(FileNotFoundError):
        target.rename(path)


def remove_orphans(database: Database, artifacts: Artifacts) -> None:
    """Delete contents without a row, which a crash or a failed commit left. Those of the last week
    may be of a transaction that goes on in any gateway, or of a backup that is being restored.

    Nothing is deleted by a database that knows none of the contents: it is that of another home.
    """
    before = time.time() - ORPHANED_SECONDS
    contents = {path.name: path for path in artifacts.file("").glob("*") if path.is_file()}
    with database.read() as session:
        known = contents.keys() & set(session.scalars(select(FileRow.id)))
    if not known:
        return
    for name in contents.keys() - known:
        with suppress(FileNotFoundError):
            if contents[name].stat().st_ctime < before:
                contents[name].unlink()


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
