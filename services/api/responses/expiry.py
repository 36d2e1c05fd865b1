"""Deletes old responses, and ends those whose client's gateway is gone."""

import logging
import time
from collections.abc import Sequence

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from services.api.responses.store import UNFINISHED, remove, server_error
from services.core.db.engine import Database, now
from services.core.db.tables import ResponseRow

logger = logging.getLogger(__name__)

BATCH_SIZE = 500
DAY = 86_400.0


class ResponseExpiry:
    """Deletes finished responses after ``days``, and the oldest while all take more than
    ``bytes``."""

    def __init__(self, days: float, max_bytes: int) -> None:
        self._days = days
        self._max_bytes = max_bytes

    def apply(self, database: Database) -> None:
        """Do it once."""
        with database.read() as session:
            lost = _lost(session)
            expired = self._expired(session)
        if not lost and not expired:
            return
        with database.write() as session:
            _fail(session, lost)
            remove(session, expired)
        logger.info("deleted %d responses, ended %d", len(expired), len(lost))

    def _expired(self, session: Session) -> list[str]:
        finished = ResponseRow.status.not_in(UNFINISHED)
        oldest = select(ResponseRow.id).where(finished).order_by(ResponseRow.created_at)
        before = time.time() - self._days * DAY
        old = oldest.where(ResponseRow.created_at < before).limit(BATCH_SIZE)
        found = list(session.scalars(old))
        total = session.execute(select(func.coalesce(func.sum(ResponseRow.bytes), 0))).scalar_one()
        if found or total <= self._max_bytes:
            return found
        sizes = select(ResponseRow.id, ResponseRow.bytes).where(finished)
        for identity, size in session.execute(sizes.order_by(ResponseRow.created_at)):
            if total <= self._max_bytes or len(found) == BATCH_SIZE:
                break
            found.append(identity)
            total -= size
        return found


def _lost(session: Session) -> list[str]:
    """Responses that a client waited for, at a gateway that does not live any more."""
    query = select(ResponseRow.id).where(
        ResponseRow.status.in_(UNFINISHED),
        ResponseRow.background.is_(False),
        ResponseRow.lease_expires_at < now(session),
    )
    return list(session.scalars(query.limit(BATCH_SIZE)))


def _fail(session: Session, ids: Sequence[str]) -> None:
    session.execute(
        update(ResponseRow)
        .where(ResponseRow.id.in_(ids), ResponseRow.status.in_(UNFINISHED))
        .values(
            status="failed",
            error=server_error("the gateway ended while it answered"),
            lease_expires_at=None,
            finished_at=time.time(),
        )
    )
