"""Wake-ups on their way to the broker.

A row is written in the transaction that made work available and removed once the broker has the
message. A crash between the two sends a wake-up twice, which is harmless.
"""

import time
from collections.abc import Sequence

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from services.core.db.tables import OutboxRow


def add_wake_up(session: Session, queue: str) -> None:
    """Ask the dispatcher to wake one worker of ``queue``."""
    session.add(OutboxRow(queue=queue, created_at=time.time()))


def pending_wake_ups(session: Session, limit: int = 500) -> Sequence[OutboxRow]:
    """The unsent wake-ups, oldest first."""
    return session.scalars(select(OutboxRow).order_by(OutboxRow.seq).limit(limit)).all()


def remove_wake_ups(session: Session, seqs: Sequence[int]) -> None:
    """Forget wake-ups that the broker has accepted."""
    session.execute(delete(OutboxRow).where(OutboxRow.seq.in_(seqs)))
