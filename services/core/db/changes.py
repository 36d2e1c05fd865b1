"""Notices that other connections have changed a database, without a query where possible."""

import logging
import select
import sqlite3
import time
from typing import Any, Protocol

from sqlalchemy import text
from sqlalchemy.orm import Session

from services.core.db.engine import Database

logger = logging.getLogger(__name__)

CHANNEL = "temper_changes"
FALLBACK_SECONDS = 5.0
"""A change counts as possible again after this time, whatever the database says."""


def announce_change(session: Session) -> None:
    """Tell every `Changes` when this transaction is committed; SQLite does so by itself."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text(f"NOTIFY {CHANNEL}"))


class Changes:
    """Whether there may be something new in a database; for one thread.

    On SQLite every commit of another connection counts, on PostgreSQL those that called
    `announce_change`, elsewhere everything. Looking costs some microseconds, so that it can be
    done often.
    """

    def __init__(self, database: Database) -> None:
        self._url = database.engine.url
        self._source: _Source | None = None
        self._possible_at = 0.0

    def seen(self) -> bool:
        """Whether something may have changed since the last call; True at first."""
        changed = True
        try:
            if self._source is None:
                self._source = self._open()
            else:
                changed = self._source.has_changed()
        except Exception as error:
            logger.debug("the database's changes cannot be followed: %s", error)
            self.close()
        now = time.monotonic()
        if changed or now >= self._possible_at:
            self._possible_at = now + FALLBACK_SECONDS
            return True
        return False

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._source is not None:
            self._source.close()
            self._source = None

    def _open(self) -> "_Source":
        kind, path = self._url.get_backend_name(), self._url.database
        if kind == "sqlite" and path and path != ":memory:":
            return _SqliteFile(path)
        if kind == "postgresql":
            plain = self._url.set(drivername="postgresql")
            return _Notifications(plain.render_as_string(hide_password=False))
        return _Unknown()


class _Source(Protocol):
    def has_changed(self) -> bool: ...

    def close(self) -> None: ...


class _Unknown:
    def has_changed(self) -> bool:
        return True

    def close(self) -> None:
        pass


class _SqliteFile:
    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._version = self._current()

    def has_changed(self) -> bool:
        before, self._version = self._version, self._current()
        return self._version != before

    def close(self) -> None:
        self._connection.close()

    def _current(self) -> int:
        """A number that changes with every commit of another connection."""
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)


class _Notifications:
    def __init__(self, address: str) -> None:
        import psycopg  # noqa: PLC0415 - processes with SQLite need not load it

        self._connection: psycopg.Connection[Any] = psycopg.connect(
            address, autocommit=True, connect_timeout=10
        )
        self._connection.execute(f"LISTEN {CHANNEL}")

    def has_changed(self) -> bool:
        if not select.select([self._connection.fileno()], [], [], 0)[0]:
            return False  # to ask the driver costs twenty times as much
        return bool(list(self._connection.notifies(timeout=0)))

    def close(self) -> None:
        self._connection.close()
