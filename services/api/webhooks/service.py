"""Webhooks in the database."""

import time
from collections.abc import Sequence

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from services.api.webhooks.signing import new_secret
from services.contracts.errors import Conflict, NotFound
from services.contracts.webhooks import (
    MAX_WEBHOOKS,
    CreatedWebhook,
    CreateWebhook,
    EventType,
    Webhook,
    WebhookDelivery,
)
from services.core.db.tables import WebhookDeliveryRow, WebhookRow
from services.core.ids import new_id


def create_webhook(session: Session, body: CreateWebhook) -> CreatedWebhook:
    """Create a webhook; raises `Conflict` if there are too many."""
    if (session.scalar(select(func.count()).select_from(WebhookRow)) or 0) >= MAX_WEBHOOKS:
        raise Conflict(f"there are {MAX_WEBHOOKS} webhooks; delete some", code="too_many_webhooks")
    row = WebhookRow(
        id=new_id("whk"),
        url=str(body.url),
        events=[event.value for event in dict.fromkeys(body.events)],
        format=body.format,
        secret=new_secret(),
        created_at=time.time(),
    )
    session.add(row)
    session.flush()
    return CreatedWebhook(**webhook_view(row).model_dump(), secret=row.secret)


def list_webhooks(session: Session, after: str | None, limit: int) -> tuple[list[Webhook], bool]:
    """Up to ``limit`` webhooks, newest first, and whether there are more."""
    query = select(WebhookRow)
    if after is not None:
        query = query.where(WebhookRow.seq < get_webhook(session, after, param="after").seq)
    rows = session.scalars(query.order_by(WebhookRow.seq.desc()).limit(limit + 1)).all()
    return [webhook_view(row) for row in rows[:limit]], len(rows) > limit


def remove_webhook(session: Session, webhook_id: str) -> None:
    """Delete a webhook with what is still to be sent to it; raises `NotFound`."""
    session.delete(get_webhook(session, webhook_id))
    own = WebhookDeliveryRow.webhook_id == webhook_id
    session.execute(delete(WebhookDeliveryRow).where(own))


def latest_deliveries(session: Session, webhook_id: str, limit: int) -> list[WebhookDelivery]:
    """Up to ``limit`` deliveries to a webhook, newest first; raises `NotFound`."""
    get_webhook(session, webhook_id)
    rows: Sequence[WebhookDeliveryRow] = session.scalars(
        select(WebhookDeliveryRow)
        .where(WebhookDeliveryRow.webhook_id == webhook_id)
        .order_by(WebhookDeliveryRow.seq.desc())
        .limit(limit)
    ).all()
    return [
        WebhookDelivery(
            id=row.event_id,
            type=EventType(row.event["type"]),
            status=row.status,
            attempts=row.attempts,
            last_error=row.last_error,
            created_at=int(row.created_at),
            next_attempt_at=None if row.next_attempt_at is None else int(row.next_attempt_at),
        )
        for row in rows
    ]


def get_webhook(session: Session, webhook_id: str, param: str | None = None) -> WebhookRow:
    """The row of a webhook; raises `NotFound`."""
    row = session.scalar(select(WebhookRow).where(WebhookRow.id == webhook_id))
    if row is None:
        raise NotFound(f"no webhook {webhook_id[:80]!r}", param=param, code="webhook_not_found")
    return row


def webhook_view(row: WebhookRow) -> Webhook:
    """The wire view of a webhook, without its secret."""
    return Webhook(
        id=row.id,
        url=row.url,
        events=[EventType(event) for event in row.events],
        format=row.format,
        created_at=int(row.created_at),
    )
