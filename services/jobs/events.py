"""Events of a job, numbered in commit order, and their announcement to webhooks.

Values are sanitized for storage. Numbers have gaps only where `services.jobs.worker.thinning` has
removed metrics of a long job.
"""

import math
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.contracts.webhooks import EventType, WebhookEvent
from services.core.db.tables import EventRow, JobRow, WebhookDeliveryRow, WebhookRow
from services.core.ids import new_id

Level = Literal["info", "warn", "error"]
Type = Literal["message", "metrics"]

MAX_TEXT = 4000
MAX_INTEGER = 2**63 - 1


@dataclass(frozen=True)
class Draft:
    """An event without a number yet."""

    message: str
    level: Level = "info"
    type: Type = "message"
    data: dict[str, Any] | None = None


def append_event(
    session: Session,
    job_id: str,
    message: str,
    *,
    level: Level = "info",
    type: Type = "message",  # noqa: A002 - the wire's name
    data: dict[str, Any] | None = None,
) -> None:
    """Append an event to a job, in the caller's transaction."""
    append_events(session, job_id, [Draft(message, level, type, data)])


def append_events(session: Session, job_id: str, drafts: Sequence[Draft]) -> None:
    """Append events to a job in order. NUL and lone surrogates in them are replaced, and
    non-finite numbers become null."""
    if not drafts:
        return
    # Numbers come from the job's row, whose lock serializes writers: a reader that has seen
    # number n has seen every smaller one.
    last = session.execute(
        update(JobRow)
        .where(JobRow.id == job_id)
        .values(event_count=JobRow.event_count + len(drafts))
        .returning(JobRow.event_count)
    ).scalar_one()
    now = time.time()
    rows = [
        {
            "job_id": job_id,
            "number": number,
            "created_at": now,
            "level": draft.level,
            "type": draft.type,
            "message": storable_text(draft.message),
            "data": storable(draft.data),
        }
        for number, draft in enumerate(drafts, last - len(drafts) + 1)
    ]
    session.execute(insert(EventRow), rows)


def events_after(session: Session, job_id: str, number: int, limit: int) -> Sequence[EventRow]:
    """The events with numbers above ``number``, oldest first."""
    return session.scalars(
        select(EventRow)
        .where(EventRow.job_id == job_id, EventRow.number > number)
        .order_by(EventRow.number)
        .limit(limit)
    ).all()


MAX_RUNNING = 200
"""Running jobs whose metrics are read at once."""


@dataclass(frozen=True)
class JobMetrics:
    """The metrics that a job reported last."""

    job_id: str
    kind: str
    values: Mapping[str, float]


def latest_metrics(session: Session) -> Iterator[JobMetrics]:
    """The last metrics of each running job; of the newest jobs, if there are very many."""
    running = select(JobRow.id, JobRow.kind).where(JobRow.status == JobStatus.RUNNING.value)
    for job_id, kind in session.execute(running.order_by(JobRow.seq.desc()).limit(MAX_RUNNING)):
        data = session.scalar(
            select(EventRow.data)
            .where(EventRow.job_id == job_id, EventRow.type == "metrics")
            .order_by(EventRow.number.desc())
            .limit(1)
        )
        values = {name: each for name, each in (data or {}).items() if each is not None}
        yield JobMetrics(job_id, kind, values)


def event_counts(session: Session, job_ids: Collection[str]) -> Mapping[str, tuple[JobStatus, int]]:
    """The status and the number of events of each job that exists, as of one moment."""
    query = select(JobRow.id, JobRow.status, JobRow.event_count).where(JobRow.id.in_(job_ids))
    found = session.execute(query).all()
    return {job_id: (JobStatus(status), count) for job_id, status, count in found}


def events_before(
    session: Session, job_id: str, number: int | None, limit: int
) -> Sequence[EventRow]:
    """The events with numbers below ``number`` (None: the latest), newest first."""
    query = select(EventRow).where(EventRow.job_id == job_id)
    if number is not None:
        query = query.where(EventRow.number < number)
    return session.scalars(query.order_by(EventRow.number.desc()).limit(limit)).all()


def storable_text(text: str, limit: int = MAX_TEXT) -> str:
    """The text with NUL and lone surrogates replaced, truncated to ``limit`` characters."""
    return text[:limit].replace("\0", "\ufffd").encode(errors="replace").decode()


def storable(value: Any) -> Any:
    """A JSON value with sanitized text; non-finite floats and huge integers become null."""
    match value:
        case str():
            return storable_text(value, limit=len(value))
        case dict():
            return {storable(name): storable(item) for name, item in value.items()}
        case list():
            return [storable(item) for item in value]
        case float() if not math.isfinite(value):
            return None
        case int() if abs(value) > MAX_INTEGER:
            return None
        case _:
            return value


def announce(session: Session, event_type: EventType, data: dict[str, Any]) -> None:
    """Queue an event for every webhook that wants it: sent if, and only if, the caller commits."""
    endpoints = session.execute(select(WebhookRow.id, WebhookRow.events)).all()
    wanting = [endpoint_id for endpoint_id, events in endpoints if event_type in events]
    if not wanting:
        return
    at = time.time()
    event = WebhookEvent(id=new_id("evt"), type=event_type, created_at=int(at), data=storable(data))
    content = event.model_dump(mode="json")
    session.add_all(
        WebhookDeliveryRow(
            webhook_id=endpoint_id,
            event_id=event.id,
            event=content,
            status="pending",
            created_at=at,
            next_attempt_at=at,
        )
        for endpoint_id in wanting
    )
