"""Requests wait while a server changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from services.contracts.errors import TemperError
from services.inference.token_engine.interface import EngineFailed

STOPPED = "the engine was stopped"


class Gate:
    """Open at first. One change at a time closes it; one that fails breaks it for good."""

    def __init__(self) -> None:
        self._changing = asyncio.Lock()
        self._open = asyncio.Event()
        self._open.set()
        self._broken: str | None = None

    async def passed(self) -> None:
        """Wait until no change is under way; raises `EngineFailed` after one that failed."""
        await self._open.wait()
        if self._broken is not None:
            raise EngineFailed(self._broken)

    def shut(self) -> None:
        """There is nothing behind it any more."""
        self._broken = self._broken or STOPPED
        self._open.set()

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Change the server in the block; waits for the change under way."""
        async with self._changing:
            if self._broken is not None:
                raise EngineFailed(self._broken)
            self._open.clear()
            try:
                yield
            except TemperError as error:
                self._broken = f"the engine is given up: {error.message}"
                raise
            except BaseException:
                self._broken = STOPPED
                raise
            finally:
                self._open.set()
