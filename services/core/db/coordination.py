"""What processes of several hosts agree on through the database they share."""

import time

from sqlalchemy import func, select
from sqlalchemy.orm import Session


def now(session: Session) -> float:
    """Seconds since the epoch by the clock of the database server, for leases and heartbeats.

    Clocks of several hosts disagree, and would let one take another's live claims. SQLite serves
    one host, whose clock is the one.
    """
    if session.get_bind().dialect.name != "postgresql":
        return time.time()
    return float(
        session.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one()
    )


def take_turns(session: Session, name: str) -> None:
    """Wait until no other transaction has taken its turn under ``name``; ours ends with itself.

    SQLite has one writer at a time anyhow.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
