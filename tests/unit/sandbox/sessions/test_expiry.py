"""Sessions expire, and where there are none nothing looks for them."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from services.contracts.sandbox.sessions import CreateSession
from services.sandbox.metrics import SessionMetrics
from services.sandbox.sessions import manager
from services.sandbox.sessions.manager import Sessions
from services.sandbox.settings import SandboxSettings


class _Notebook:
    ended_at: float | None = None
    end_reason = ""
    restarts = 0

    async def end(self, _reason: str) -> None:
        self.ended_at = time.monotonic()


def test_expiry_is_checked_while_there_are_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager, "CHECK_SECONDS", 0.0)
    monkeypatch.setattr(manager, "time", SimpleNamespace(monotonic=lambda: 1e12))
    looked = 0
    end_expired = Sessions._end_expired

    async def look(sessions: Sessions) -> None:
        nonlocal looked
        looked += 1
        await end_expired(sessions)

    async def rest() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def work() -> None:
        notebook = _Notebook()

        async def opened(*_: object) -> _Notebook:
            return notebook

        notebooks: Any = SimpleNamespace(settings=SandboxSettings(), open=opened)
        metrics = SessionMetrics(CollectorRegistry())
        sessions = Sessions(notebooks, cast("Any", None), metrics)
        async with asyncio.timeout(60), sessions.running():
            await rest()
            assert looked == 0

            await sessions.create("me", CreateSession())
            while sessions.of("me"):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
            assert notebook.ended_at is not None
            await rest()
            before = looked
            await rest()
            assert looked == before

    monkeypatch.setattr(Sessions, "_end_expired", look)
    asyncio.run(work())
