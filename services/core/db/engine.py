"""Sessions on SQLite or PostgreSQL.

A session is opened for reading or for writing: SQLite takes the write lock at the start of a
writing one (BEGIN IMMEDIATE) instead of failing in the middle of a transaction.
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
"""Raised by sessions when the database does not answer or is locked: retry later."""

BUSY_TIMEOUT_SECONDS = 30
POSTGRES_LIMITS: dict[str, str | int] = {
    "connect_timeout": 10,
    # Milliseconds. A process stopped in the middle of a transaction, or a network that drops
    # packets, must not block the others for longer than their leases.
    "tcp_user_timeout": 20_000,
    "options": "-c lock_timeout=20000 -c idle_in_transaction_session_timeout=30000",
}


class Database:
    """A connection pool for one database; safe to share between threads."""

    def __init__(self, url: str) -> None:
        self.engine = _create_engine(url)
        writer = self.engine.execution_options(temper_write=True)
        reader = self.engine
        if self.engine.dialect.name == "postgresql":  # SQLite always reads a snapshot
            reader = self.engine.execution_options(isolation_level="REPEATABLE READ")
        self._read = sessionmaker(reader, expire_on_commit=False)
        self._write = sessionmaker(writer, expire_on_commit=False)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session over one snapshot; writes are rolled back."""
        with self._read() as session:
            yield session

    @contextmanager
    def write(self) -> Iterator[Session]:
        """A transaction: committed at the end, rolled back by an exception."""
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
    # Connections are cheap, and each may have to wait for the one writer.
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
    """Create the file readable by its owner only; SQLite gives its other files the same mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))


def _prepare_sqlite(connection: Any, _entry: ConnectionPoolEntry) -> None:
    # Turn off the driver's implicit BEGIN: _begin_sqlite decides.
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
    """Seconds since the epoch by the database server's clock, for leases and heartbeats.

    Host clocks disagree, and would let one host take another's live claims. SQLite serves a
    single host, whose clock is used.
    """
    if session.get_bind().dialect.name != "postgresql":
        return time.time()
    return float(
        session.execute(select(func.extract("epoch", func.clock_timestamp()))).scalar_one()
    )


def advisory_lock(session: Session, name: str) -> None:
    """Serialize transactions under ``name`` until this one ends (a PostgreSQL advisory lock).

    SQLite has a single writer already.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(name, 0))))
