"""A cache of judges' responses, so that the same request is not paid for twice."""

import asyncio
import hashlib
import json
import logging
import sqlite3
import threading
from pathlib import Path
from typing import Self

from services.contracts.base import JsonObject

logger = logging.getLogger(__name__)

FILE = "verdicts.db"
MOST = 200_000
"""Maximum cached responses; the oldest are evicted."""
READING = 2
"""Version of what is kept and how it is read: 2 keeps no answer that was cut off."""
LOCK_SECONDS = 5.0
_TABLE = """
CREATE TABLE IF NOT EXISTS verdicts (
    number INTEGER PRIMARY KEY, question BLOB UNIQUE NOT NULL, answer TEXT NOT NULL
)
"""


class Verdicts:
    """A file of responses, shared by the processes of a host; a context manager.

    An unreadable or unwritable file counts as an empty cache.
    """

    def __init__(self, path: Path, most: int = MOST) -> None:
        self._path = path
        self._most = most
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        try:
            self._database = sqlite3.connect(
                self._path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = NORMAL")
            self._database.execute(_TABLE)
        except sqlite3.Error as error:
            self._give_up(error)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._database is not None:
                self._database.close()
                self._database = None

    async def find(self, url: str, request: JsonObject) -> str | None:
        """The cached response of this server to this request, if any."""
        return await asyncio.to_thread(self._find, _question(url, request))

    async def keep(self, url: str, request: JsonObject, answer: str) -> None:
        """Store a response."""
        await asyncio.to_thread(self._keep, _question(url, request), answer)

    def _find(self, question: bytes) -> str | None:
        with self._lock:
            if self._database is None:
                return None
            try:
                row = self._database.execute(
                    "SELECT answer FROM verdicts WHERE question = ?", (question,)
                ).fetchone()
            except sqlite3.Error as error:
                self._give_up(error)
                return None
        return str(row[0]) if row else None

    def _keep(self, question: bytes, answer: str) -> None:
        with self._lock:
            if self._database is None:
                return
            try:
                done = self._database.execute(
                    "INSERT OR IGNORE INTO verdicts (question, answer) VALUES (?, ?)",
                    (question, answer),
                )
                if done.rowcount:
                    oldest = (done.lastrowid or 0) - self._most
                    self._database.execute("DELETE FROM verdicts WHERE number <= ?", (oldest,))
            except sqlite3.Error as error:
                self._give_up(error)

    def _give_up(self, error: sqlite3.Error) -> None:
        logger.warning("cache of judges' answers disabled: %s: %s", self._path, error)
        self._database = None


def _question(url: str, request: JsonObject) -> bytes:
    """The cache key: the version of the reading, the server and the whole request."""
    key = json.dumps([READING, url, request], sort_keys=True)
    return hashlib.sha256(key.encode()).digest()
