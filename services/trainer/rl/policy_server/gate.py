"""Blocks the requests of one of the policy's servers while it changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.contracts.errors import TemperError
from services.inference.token_engine.base import EngineFailed

STOPPED = "the engine was stopped"


class Gate:
    """Blocks requests while the server changes: open initially, closed by one change at a time,
    permanently broken by a failed one."""

    def __init__(self) -> None:
        self._changing = asyncio.Lock()
        self._open = asyncio.Event()
        self._open.set()
        self._broken: str | None = None
        self._retryable = False

    async def wait(self) -> None:
        """Wait until no change is in progress; raises `EngineFailed` after a failed one."""
        await self._open.wait()
        self._check()

    def close(self) -> None:
        """Fail all requests from now on."""
        self._broken = self._broken or STOPPED
        self._open.set()

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Change the server in the block; waits for the change in progress."""
        async with self._changing:
            self._check()
            self._open.clear()
            try:
                yield
            except TemperError as error:
                self._broken = f"the engine has failed: {error.message}"
                self._retryable = error.retryable
                raise
            except BaseException:
                self._broken = STOPPED
                raise
            finally:
                self._open.set()

    def _check(self) -> None:
        if self._broken is not None:
            failure = EngineFailed(self._broken)
            failure.retryable = self._retryable
            raise failure
