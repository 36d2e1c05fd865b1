"""A cache of LLM responses that campaigns share, bounded in size and age."""

import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

logger = logging.getLogger(__name__)

LOCK_SECONDS = 5.0
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (
    number INTEGER PRIMARY KEY, question BLOB UNIQUE NOT NULL,
    bytes INTEGER NOT NULL, kept_at REAL NOT NULL,
    prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, answer TEXT NOT NULL
)
"""
"""The response is the last column, so that reading the others does not touch its pages."""

_KEEP = """
INSERT INTO answers (question, answer, prompt_tokens, completion_tokens, bytes, kept_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (question) DO UPDATE SET answer = excluded.answer,
    prompt_tokens = excluded.prompt_tokens, completion_tokens = excluded.completion_tokens,
    bytes = excluded.bytes, kept_at = excluded.kept_at
WHERE answer <> excluded.answer OR kept_at < ?
"""
_EXPIRE = "DELETE FROM answers WHERE kept_at < ?"
_SHRINK = """
DELETE FROM answers WHERE number IN (
    SELECT number FROM (
        SELECT number, SUM(bytes) OVER (ORDER BY kept_at DESC, number DESC) AS held FROM answers
    ) WHERE held > ?
)
"""


@dataclass(frozen=True)
class CachedAnswer:
    """A response and its token usage."""

    text: str
    prompt_tokens: int
    completion_tokens: int


class AnswerCache:
    """A file of responses by the checksum of their request, shared by the processes of a host.

    Holds up to ``most_bytes`` of responses for up to ``most_seconds``, and evicts the oldest first.
    An unreadable or unwritable file counts as an empty cache. ``now`` is the clock.
    """

    def __init__(
        self,
        path: Path,
        most_bytes: int,
        most_seconds: float,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._most_seconds = most_seconds
        self._now = now

    def find(self, question: bytes) -> CachedAnswer | None:
        """The cached response to a request, or None."""
        query = (
            "SELECT answer, prompt_tokens, completion_tokens FROM answers "
            "WHERE question = ? AND kept_at >= ?"
        )
        try:
            with self._opened() as database:
                row = database.execute(query, (question, self._oldest())).fetchone()
        except sqlite3.Error as error:
            self._warn(error)
            return None
        return None if row is None else CachedAnswer(*row)

    def keep(self, question: bytes, answer: CachedAnswer) -> None:
        """Store a response, replacing an older one."""
        size = len(answer.text.encode())
        if size > self._most_bytes:
            return
        counts = (answer.prompt_tokens, answer.completion_tokens)
        oldest = self._oldest()
        values = (question, answer.text, *counts, size, self._now(), oldest)
        try:
            with self._opened() as database:
                if database.execute(_KEEP, values).rowcount:
                    database.execute(_EXPIRE, (oldest,))
                    database.execute(_SHRINK, (self._most_bytes,))
        except sqlite3.Error as error:
            self._warn(error)

    def _oldest(self) -> float:
        return self._now() - self._most_seconds

    def _warn(self, error: sqlite3.Error) -> None:
        logger.warning("answers of LLMs are not shared now: %s: %s", self._path, error)

    @contextlib.contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The file, in one transaction."""
        with contextlib.closing(sqlite3.connect(self._path, timeout=LOCK_SECONDS)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute(_TABLE)
            with database:
                yield database
