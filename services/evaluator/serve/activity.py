"""The requests of a serving: how many are in progress, when the last ended, and whether more may
come."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Activity:
    """Counts requests. ``reason`` says why the serving leaves; None while it stays."""

    def __init__(self, answered: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.in_progress = 0
        self.answered = answered
        self.reason: str | None = None
        self.outgrown = False
        self._clock = clock
        self._last_use = clock()
        self._none_in_progress = asyncio.Event()
        self._none_in_progress.set()
        self._leaving = asyncio.Event()

    @property
    def idle_seconds(self) -> float:
        """Time since a request was last in progress."""
        return 0.0 if self.in_progress else self._clock() - self._last_use

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request for as long as the block runs."""
        self.in_progress += 1
        self._none_in_progress.clear()
        try:
            yield
        finally:
            self.in_progress -= 1
            self.answered += 1
            self._last_use = self._clock()
            if not self.in_progress:
                self._none_in_progress.set()

    def leave(self, reason: str, *, outgrown: bool = False) -> None:
        """Accept no further requests."""
        if self.reason is None:
            self.reason, self.outgrown = reason, outgrown
            self._leaving.set()

    async def leaving(self, timeout_seconds: float) -> bool:
        """Wait until the serving leaves, at most so long; whether it does."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._leaving.wait()
        except TimeoutError:
            return False
        return True

    async def drained(self) -> None:
        """Wait until no request is in progress."""
        await self._none_in_progress.wait()
