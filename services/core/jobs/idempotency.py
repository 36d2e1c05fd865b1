"""Stored responses to creating requests, so that a retry gets the first response again."""

import time
from typing import Any

from sqlalchemy import delete
from sqlalchemy.orm import Session

from services.contracts.errors import Conflict
from services.core.db.tables import IdempotencyRow

RETENTION_SECONDS = 24 * 3600.0


def recall_answer(
    session: Session, principal: str, key: str, fingerprint: str
) -> dict[str, Any] | None:
    """Return the first response to this request, or None when it is new.

    Raises `Conflict` when the key was used with another body.
    """
    row = session.get(IdempotencyRow, (principal, key))
    if row is None:
        return None
    if row.fingerprint != fingerprint:
        raise Conflict(
            "this Idempotency-Key was used with another request",
            param="Idempotency-Key",
            code="idempotency_key_reused",
        )
    return row.response


def remember_answer(
    session: Session, principal: str, key: str, fingerprint: str, response: dict[str, Any]
) -> None:
    """Store a response in the transaction that created what it describes."""
    session.add(
        IdempotencyRow(
            principal=principal,
            key=key,
            fingerprint=fingerprint,
            response=response,
            created_at=time.time(),
        )
    )
    session.flush()


def forget_old_answers(session: Session) -> None:
    """Delete responses older than a day."""
    session.execute(
        delete(IdempotencyRow).where(IdempotencyRow.created_at < time.time() - RETENTION_SECONDS)
    )
