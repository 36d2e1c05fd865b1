"""Sessions on SQLite or PostgreSQL.

A session is for reading or for writing, and says which when it begins: SQLite then takes the
write lock at the start (BEGIN IMMEDIATE) instead of failing in the middle of a transaction.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

DATABASE_AWAY = (OperationalError, PoolTimeoutError)
"""What a session raises when the database does not answer or is locked: try again later."""

BUSY_TIMEOUT_SECONDS = 30
POSTGRES_LIMITS: dict[str, str | int] = {
    "connect_timeout": 10,
    # Milliseconds. A process that was stopped in the middle of a transaction, or a network that
    # swallows packets, must not hold up the others for longer than their leases.
    "tcp_user_timeout": 20_000,
    "options": "-c lock_timeout=20000 -c idle_in_transaction_session_timeout=30000",
}


class Database:
    """A pool of connections to one database; cheap to share between threads."""

    def __init__(self, url: str) -> None:
        self.engine = _create_engine(url)
        writer = self.engine.execution_options(temper_write=True)
        reader = self.engine
        if self.engine.dialect.name == "postgresql":  # SQLite always reads one state
            reader = self.engine.execution_options(isolation_level="REPEATABLE READ")
        self._read = sessionmaker(reader, expire_on_commit=False)
        self._write = sessionmaker(writer, expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session over one consistent state; what it writes is rolled back."""
        with self._read() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction, committed at the end and rolled back by an exception."""
        with self._write.begin() as session:
            yield session

    def ping(self) -> None:
        """Raise when the database does not answer."""
        with self.read() as session:
            session.execute(text("SELECT 1"))

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _create_engine(url: str) -> Engine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return _create_server_engine(parsed)
    if parsed.database and parsed.database != ":memory:":
        _create_private_file(Path(parsed.database))
    # Connections are cheap here, and each may wait for the one writer.
    engine = create_engine(
        parsed, pool_size=10, max_overflow=90, connect_args={"timeout": BUSY_TIMEOUT_SECONDS}
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _create_server_engine(url: URL) -> Engine:
    postgres = url.get_backend_name() == "postgresql"
    limits = POSTGRES_LIMITS if postgres else {}
    return create_engine(
        url,
        pool_pre_ping=True,
        pool_size=10,
        max_overflow=20,
        connect_args={name: value for name, value in limits.items() if name not in url.query},
    )


def _create_private_file(path: Path) -> None:
    """SQLite gives its other files the mode of this one: jobs and answers are the owner's."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _prepare_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:
    # The driver's own implicit BEGIN is switched off: _begin_sqlite decides.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("temper_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


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


def advisory_lock(session: Session, name: str) -> None:
    """Wait until no other transaction has taken its turn under ``name``; ours ends with itself.

    SQLite has one writer at a time anyhow.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
