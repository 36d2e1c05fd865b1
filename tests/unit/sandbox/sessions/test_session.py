"""A session says why it ended."""

import asyncio

import pytest

from services.sandbox.sessions.session import OpenSession
from tests.unit.sandbox.sessions.scripted import scripted_notebook


@pytest.mark.parametrize(
    ("idle", "life", "reason"),
    [(-2.0, -1.0, "it was idle for too long"), (-1.0, -2.0, "it reached its maximum lifetime")],
)
def test_the_earlier_expiry_is_reported_even_if_noticed_late(
    idle: float, life: float, reason: str
) -> None:
    async def work() -> str:
        async with scripted_notebook() as (notebook, _driver):
            session = OpenSession(
                "id", "owner", notebook, idle_timeout=idle, lifetime=life, memory_bytes=1 << 20
            )
            await session.end()
            return notebook.end_reason

    assert asyncio.run(work()) == reason
