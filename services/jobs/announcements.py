"""Announcing events to webhooks, in the transaction that they happen in."""

import time
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.webhooks import EventType, WebhookEvent
from services.core.db.tables import WebhookDeliveryRow, WebhookRow
from services.core.ids import new_id
from services.jobs.events import storable


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
