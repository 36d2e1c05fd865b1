"""Usage is written exactly once, whenever the gateway stops."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy.orm import Session

from services.api.serving import usage
from services.api.serving.metering import TokenUsage
from services.api.serving.usage import UsageLog, usage_of
from services.core.db.engine import Database


def test_a_write_in_progress_at_shutdown_is_not_repeated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, write = threading.Event(), database.write

    @contextmanager
    def slow_write() -> Iterator[Session]:
        writing.set()
        threading.Event().wait(0.2)
        with write() as session:
            yield session

    async def scenario() -> None:
        async with UsageLog(database) as log:
            log.count("key", "base", TokenUsage(prompt_tokens=3, completion_tokens=2))
            await asyncio.to_thread(writing.wait)

    monkeypatch.setattr(usage, "WRITE_SECONDS", 0.01)
    monkeypatch.setattr(database, "write", slow_write)
    asyncio.run(scenario())

    with database.read() as session:
        (day,) = usage_of(session, "key", 1).data
    assert (day.requests, day.prompt_tokens, day.completion_tokens) == (1, 3, 2)
