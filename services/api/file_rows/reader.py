"""Reads rows in children, which are killed when a file or a template misbehaves, and stopped when
idle."""

import asyncio
import contextlib
import sys
from typing import Self

from services.api.file_rows.spec import ReadExamples, ReadRows, RowAnswer
from services.contracts.errors import GatewayTimeout, InvalidRequest, Unavailable
from services.core.process.runtimes import child_environment
from services.core.process.worker_pool import WorkerFailed, WorkerPool, WorkerTimedOut

CHILD = "services.api.file_rows.child"
CHILDREN = 2
START_SECONDS = 60.0
PAGE_SECONDS = 20.0
WAIT_SECONDS = 60.0
"""Time limit for getting a child, its start and the page together."""
IDLE_SECONDS = 120.0
MAX_ANSWER_BYTES = 128 << 20


class RowReader:
    """Answers requests for pages of rows. Use as an async context manager."""

    def __init__(self) -> None:
        self._pool = WorkerPool(
            [sys.executable, "-m", CHILD],
            CHILDREN,
            child_environment({"TOKENIZERS_PARALLELISM": "false"}),
            start_seconds=START_SECONDS,
            max_answer_bytes=MAX_ANSWER_BYTES,
        )
        self._calls = 0
        self._idle_watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._pool.__aenter__()
        self._idle_watch = asyncio.create_task(self._stop_when_idle())
        return self

    async def __aexit__(self, *error: object) -> None:
        if self._idle_watch is not None:
            self._idle_watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._idle_watch
        await self._pool.__aexit__(*error)

    async def page(self, request: ReadRows | ReadExamples) -> bytes:
        """The page as JSON.

        Raises `InvalidRequest` for what cannot be shown, `GatewayTimeout` when it takes too long,
        and `Unavailable` when the child died, as it does when out of memory.
        """
        self._calls += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                answer = await self._pool.call(request.model_dump(mode="json"), PAGE_SECONDS)
        except (TimeoutError, WorkerTimedOut):
            raise GatewayTimeout(f"the rows were not read within {PAGE_SECONDS:g} s") from None
        except WorkerFailed as error:
            raise Unavailable(f"the process that reads the rows {error.message}") from None
        result = RowAnswer.model_validate(answer)
        if (refused := result.refused) is not None:
            raise InvalidRequest(refused.message, param=refused.param, code=refused.code)
        return (result.page or "").encode()

    async def _stop_when_idle(self) -> None:
        while True:
            before = self._calls
            await asyncio.sleep(IDLE_SECONDS)
            if self._calls == before:
                await self._pool.rest()
