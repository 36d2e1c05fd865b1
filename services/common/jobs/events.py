"""What happened to a job, numbered without gaps in the order it was committed."""

import time
from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from services.common.db.tables import EventRow, JobRow

MAX_EVENTS = 100_000
"""Metrics beyond it are kept in metrics.jsonl only; messages are always recorded."""

Level = Literal["info", "warn", "error"]


def append_event(
    session: Session,
    job_id: str,
    message: str,
    *,
    level: Level = "info",
    type: Literal["message", "metrics"] = "message",  # noqa: A002 - the wire's name
    data: dict[str, Any] | None = None,
) -> None:
    """Add one event to a job, in the caller's transaction."""
    # Numbers come from the job's row, whose lock orders concurrent writers: a reader that has
    # seen number n has seen every smaller one.
    number = session.execute(
        update(JobRow)
        .where(JobRow.id == job_id)
        .values(event_count=JobRow.event_count + 1)
        .returning(JobRow.event_count)
    ).scalar_one()
    if number > MAX_EVENTS and type == "metrics":
        return
    session.execute(
        insert(EventRow).values(
            job_id=job_id,
            number=number,
            created_at=time.time(),
            level=level,
            type=type,
            message=message,
            data=data,
        )
    )


def events_after(session: Session, job_id: str, number: int, limit: int) -> Sequence[EventRow]:
    """The events with numbers above ``number``, oldest first."""
    return session.scalars(
        select(EventRow)
        .where(EventRow.job_id == job_id, EventRow.number > number)
        .order_by(EventRow.number)
        .limit(limit)
    ).all()


def events_before(
    session: Session, job_id: str, number: int | None, limit: int
) -> Sequence[EventRow]:
    """The events with numbers below ``number`` (None: the latest), newest first."""
    query = select(EventRow).where(EventRow.job_id == job_id)
    if number is not None:
        query = query.where(EventRow.number < number)
    return session.scalars(query.order_by(EventRow.number.desc()).limit(limit)).all()
