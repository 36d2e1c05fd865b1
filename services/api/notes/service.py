"""Notes in the database."""

import time
from collections.abc import Mapping, Sequence

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from services.contracts.errors import Conflict, InvalidRequest, NotFound
from services.contracts.notes import MAX_NOTES, CreateNote, Note
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import NoteRow
from services.core.ids import new_id
from services.jobs.store import get_job


def check_subject(
    database: Database, artifacts: Artifacts, job_id: str, trajectory_id: str | None
) -> None:
    """Raise `NotFound` for an unknown job, and `InvalidRequest` for a trajectory of another."""
    with database.read() as session:
        get_job(session, job_id)
    if trajectory_id is None:
        return
    from services.rollouts.log.listings import open_kept  # noqa: PLC0415 - with numpy, which an idle gateway does without

    if open_kept(artifacts.job(job_id)).place_of(trajectory_id) is None:
        message = f"{trajectory_id[:80]!r} is not a trajectory of this job"
        raise InvalidRequest(message, param="trajectory_id")


def create_note(session: Session, job_id: str, body: CreateNote) -> Note:
    """Create a note; raises `NotFound` for an unknown job, `Conflict` if it has too many notes."""
    get_job(session, job_id, lock=True)
    if count_job_notes(session, [job_id]).get(job_id, 0) >= MAX_NOTES:
        raise Conflict(f"the job has {MAX_NOTES:,} notes; delete some", code="too_many_notes")
    row = NoteRow(
        id=new_id("note"),
        job_id=job_id,
        trajectory_id=body.trajectory_id,
        text=body.text,
        created_at=time.time(),
    )
    session.add(row)
    session.flush()
    return note_view(row)


def list_notes(
    session: Session, job_id: str, trajectory_id: str | None, after: str | None, limit: int
) -> tuple[list[Note], bool]:
    """Up to ``limit`` notes about a job and its trajectories, or about one trajectory, newest
    first, and whether there are more; raises `NotFound`, also for an unknown ``after``."""
    get_job(session, job_id)
    query = select(NoteRow).where(NoteRow.job_id == job_id)
    if trajectory_id is not None:
        query = query.where(NoteRow.trajectory_id == trajectory_id)
    return _page(session, query, after, limit, job_id)


def find_notes(
    session: Session, text: str | None, after: str | None, limit: int
) -> tuple[list[Note], bool]:
    """Up to ``limit`` notes about any job that contain ``text``, newest first, and whether there
    are more; raises `NotFound` for an unknown ``after``."""
    query = select(NoteRow)
    if text is not None:
        query = query.where(NoteRow.text.icontains(text, autoescape=True))
    return _page(session, query, after, limit)


def remove_note(session: Session, job_id: str, note_id: str) -> None:
    """Delete a note; raises `NotFound`."""
    session.delete(_row(session, note_id, job_id))


def count_job_notes(session: Session, job_ids: Sequence[str]) -> Mapping[str, int]:
    """Number of notes about jobs and their trajectories, by job."""
    query = select(NoteRow.job_id, func.count()).where(NoteRow.job_id.in_(job_ids))
    rows = session.execute(query.group_by(NoteRow.job_id))
    return {row[0]: row[1] for row in rows}


def count_trajectory_notes(
    session: Session, job_id: str, trajectory_ids: Sequence[str]
) -> Mapping[str, int]:
    """Number of notes about trajectories of a job, by trajectory."""
    name = NoteRow.trajectory_id
    query = select(name, func.count()).where(NoteRow.job_id == job_id, name.in_(trajectory_ids))
    return {str(row[0]): row[1] for row in session.execute(query.group_by(name))}


def note_view(row: NoteRow) -> Note:
    """The wire view of a note."""
    return Note(
        id=row.id,
        job_id=row.job_id,
        trajectory_id=row.trajectory_id,
        text=row.text,
        created_at=int(row.created_at),
    )


def _page(
    session: Session,
    query: Select[NoteRow],
    after: str | None,
    limit: int,
    job_id: str | None = None,
) -> tuple[list[Note], bool]:
    if after is not None:
        query = query.where(NoteRow.seq < _row(session, after, job_id, param="after").seq)
    rows = session.scalars(query.order_by(NoteRow.seq.desc()).limit(limit + 1)).all()
    return [note_view(row) for row in rows[:limit]], len(rows) > limit


def _row(
    session: Session, note_id: str, job_id: str | None = None, *, param: str = "note_id"
) -> NoteRow:
    query = select(NoteRow).where(NoteRow.id == note_id)
    if job_id is not None:
        query = query.where(NoteRow.job_id == job_id)
    row = session.scalar(query)
    if row is None:
        raise NotFound(f"no note {note_id[:80]!r}", param=param, code="note_not_found")
    return row
