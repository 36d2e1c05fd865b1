"""Sessions on SQLite or PostgreSQL.

A session is for reading or for writing, and says which when it begins: SQLite then takes the
write lock at the start (BEGIN IMMEDIATE) instead of failing in the middle of a transaction.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.orm import Session, sessionmaker
from sqlalchemy.pool import ConnectionPoolEntry

BUSY_TIMEOUT_SECONDS = 30


class Database:
    """A pool of connections to one database; cheap to share between threads."""

    def __init__(self, url: str) -> None:
        self.engine = _create_engine(url)
        writer = self.engine.execution_options(temper_write=True)
        self._read = sessionmaker(self.engine, expire_on_commit=False)
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
        return create_engine(
            parsed, hide_parameters=True, pool_pre_ping=True, pool_size=10, max_overflow=20
        )
    if parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        parsed, hide_parameters=True, connect_args={"timeout": BUSY_TIMEOUT_SECONDS}
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


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
