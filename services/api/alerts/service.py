"""Alerts in the database."""

import time
from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.api.alerts.signals import Finding
from services.contracts.alerts import Alert, AlertRule
from services.contracts.errors import NotFound
from services.contracts.webhooks import EventType
from services.core.db.tables import AlertRow
from services.core.ids import new_id
from services.jobs.events import announce


def open_alerts(session: Session) -> Mapping[tuple[str | None, AlertRule], AlertRow]:
    """The alerts that are not resolved, by job and rule."""
    rows = session.scalars(select(AlertRow).where(AlertRow.resolved_at.is_(None)))
    return {(row.job_id, AlertRule(row.rule)): row for row in rows}


def raise_alert(session: Session, job_id: str | None, rule: AlertRule, finding: Finding) -> None:
    """Record an alert and announce it."""
    row = AlertRow(
        id=new_id("alert"),
        rule=rule.value,
        job_id=job_id,
        message=finding.message,
        value=finding.value,
        bound=finding.bound,
        raised_at=time.time(),
    )
    session.add(row)
    session.flush()
    _announce(session, EventType.ALERT_RAISED, row)


def resolve_alert(session: Session, row: AlertRow) -> None:
    """Record that an alert's rule no longer holds, and announce it."""
    row.resolved_at = time.time()
    _announce(session, EventType.ALERT_RESOLVED, row)


def list_alerts(
    session: Session, *, job_id: str | None, resolved: bool, after: str | None, limit: int
) -> tuple[list[Alert], bool]:
    """Up to ``limit`` alerts, newest first, and whether there are more; of one job, if given, and
    with ``resolved`` ones on request. Raises `NotFound` for an unknown ``after``."""
    query = select(AlertRow)
    if job_id is not None:
        query = query.where(AlertRow.job_id == job_id)
    if not resolved:
        query = query.where(AlertRow.resolved_at.is_(None))
    if after is not None:
        last = session.scalar(select(AlertRow.seq).where(AlertRow.id == after))
        if last is None:
            raise NotFound(f"no alert {after[:80]!r}", param="after", code="alert_not_found")
        query = query.where(AlertRow.seq < last)
    rows = session.scalars(query.order_by(AlertRow.seq.desc()).limit(limit + 1)).all()
    return [_view(row) for row in rows[:limit]], len(rows) > limit


def _announce(session: Session, event_type: EventType, row: AlertRow) -> None:
    data = {"id": row.id, "rule": row.rule, "job_id": row.job_id}
    announce(session, event_type, data | {"message": row.message, "value": row.value})


def _view(row: AlertRow) -> Alert:
    return Alert(
        id=row.id,
        rule=AlertRule(row.rule),
        job_id=row.job_id,
        message=row.message,
        value=row.value,
        bound=row.bound,
        status="raised" if row.resolved_at is None else "resolved",
        raised_at=int(row.raised_at),
        resolved_at=None if row.resolved_at is None else int(row.resolved_at),
    )
