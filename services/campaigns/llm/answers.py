"""LLM responses that are kept: each in a file as soon as it arrives, and in a cache that campaigns
share, bounded in size and age.

A response is saved before anything else is done with it, so that neither a killed worker nor an
unavailable database costs a second call. A call that was in flight is repeated with the same
idempotency key, for endpoints that then return the same response.

A campaign that repeats a request, as after a rewind, wants a new response. So its n-th request of a
text is distinct, and is answered only by the n-th of another campaign.
"""

import contextlib
import hashlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.llms import AnswerCaching
from services.inference.chat_answers import ChatAnswer, read_chat
from services.inference.clients.chat import ChatRequest
from services.inference.clients.retries import BrokenOffAnswer

logger = logging.getLogger(__name__)

FILE = "campaign-answers.db"
DAY_SECONDS = 86_400.0
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


class KeptAnswer:
    """The file in ``folder`` for the response to one request. ``idempotency_key`` is the same for
    every attempt at the request of one ``place`` in a campaign."""

    def __init__(self, folder: Path, place: str, request: ChatRequest) -> None:
        content = f"{place}\n{request.model_dump_json()}"
        self.idempotency_key = hashlib.sha256(content.encode()).hexdigest()
        self._path = folder / "answers" / f"{self.idempotency_key}.json"

    def read(self) -> ChatAnswer | None:
        """The response, if it has already arrived. One that was aborted is not one: earlier
        versions kept them."""
        try:
            return read_chat(self._path.read_bytes())
        except (FileNotFoundError, BrokenOffAnswer):
            return None

    def write(self, body: bytes) -> None:
        """Save the body of a response durably."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        with partial.open("wb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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


class SharedAnswers:
    """The cache as seen by one campaign, which records its requests in ``folder``."""

    def __init__(self, policy: AnswerCaching, settings: CampaignSettings, folder: Path) -> None:
        size = settings.campaign_answer_mb << 20
        self._policy = policy if size else AnswerCaching()
        self._folder = folder
        self._cache = AnswerCache(
            settings.home / FILE, size, settings.campaign_answer_days * DAY_SECONDS
        )
        keys = (settings.gateway_api_key, settings.campaign_script_key)
        own = [key.get_secret_value() for key in keys if key is not None]
        self._secrets = [key for key in (*settings.endpoint_keys.values(), *own) if key]

    def find(self, place: str, base_url: str, request: ChatRequest) -> CachedAnswer | None:
        """The cached response to a request made at a place of the campaign."""
        if not self._policy.read:
            return None
        question = self._question(place, base_url, request)
        return None if question is None else self._cache.find(question)

    def keep(self, place: str, base_url: str, request: ChatRequest, answer: CachedAnswer) -> None:
        """Store a response for other campaigns, unless it repeats a secret."""
        if not self._policy.write or any(secret in answer.text for secret in self._secrets):
            return
        question = self._question(place, base_url, request)
        if question is not None:
            self._cache.keep(question, answer)

    def _question(self, place: str, base_url: str, request: ChatRequest) -> bytes | None:
        """The cache key of a request; None if the folder cannot be read or written."""
        asked = json.dumps([base_url, request.model_dump(mode="json")], sort_keys=True).encode()
        try:
            times = self._times_before(hashlib.sha256(asked).hexdigest(), place)
        except OSError as error:
            logger.warning("answers of LLMs are not shared now: %s", error)
            return None
        return hashlib.sha256(b"%d\n%s" % (times, asked)).digest()

    def _times_before(self, asked: str, place: str) -> int:
        """How many other places made this request before; the same for repeats of one place."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / asked).open("a+") as file:
            file.seek(0)
            if f"{place}\n" not in file:
                file.write(f"{place}\n")
                file.flush()
            file.seek(0)
            return file.readlines().index(f"{place}\n")
