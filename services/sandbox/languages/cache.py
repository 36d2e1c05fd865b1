"""Compile cache: successful compilations are kept, concurrent ones shared (single-flight).

A failure may be due to a limit or to the machine, so it reaches its waiters only.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field

from services.sandbox.execution import ExitReason, Outcome

Compile = Callable[[], Awaitable[Outcome]]


@dataclass(frozen=True)
class Compilation:
    """The outcome of a compilation; ``cached`` if it was not done for this request."""

    outcome: Outcome
    cached: bool


@dataclass
class _Flight:
    """A compilation in progress, and the number of its waiters."""

    task: asyncio.Task[Outcome]
    waiting: int = 0


@dataclass
class CompileCache:
    """Keeps compiled programs up to ``capacity`` bytes, evicting the least recently used.

    ``hits`` were in the cache, ``shared`` were in progress, ``misses`` were compiled;
    ``held_bytes`` is the size of the cache.
    """

    capacity: int
    hits: int = 0
    shared: int = 0
    misses: int = 0
    held_bytes: int = 0
    _held: OrderedDict[str, Outcome] = field(default_factory=OrderedDict)
    _flights: dict[Hashable, _Flight] = field(default_factory=dict)

    @property
    def entries(self) -> int:
        """Number of cached compilations."""
        return len(self._held)

    async def get(self, key: str, limits: Hashable, compile_now: Compile) -> Compilation:
        """The compilation of ``key``: cached, shared, or done now by ``compile_now``.

        Requests with equal ``key`` and ``limits`` share one compilation. It continues as long as
        anyone waits for it, and is cancelled with the last waiter; an error reaches all of them.
        """
        held = self._held.get(key)
        if held is not None:
            self._held.move_to_end(key)
            self.hits += 1
            return Compilation(held, cached=True)
        flight = self._flights.get((key, limits))
        joined = flight is not None
        if flight is None:
            self.misses += 1
            flight = self._start(key, limits, compile_now)
        else:
            self.shared += 1
        return Compilation(await self._wait((key, limits), flight), cached=joined)

    def _start(self, key: str, limits: Hashable, compile_now: Compile) -> _Flight:
        async def compile_and_remember() -> Outcome:
            try:
                outcome = await compile_now()
                self._remember(key, outcome)
                return outcome
            finally:
                self._stop_sharing((key, limits), flight)

        flight = _Flight(asyncio.create_task(compile_and_remember()))
        self._flights[key, limits] = flight
        return flight

    async def _wait(self, key: Hashable, flight: _Flight) -> Outcome:
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                self._stop_sharing(key, flight)
                flight.task.cancel()
                await asyncio.gather(flight.task, return_exceptions=True)

    def _stop_sharing(self, key: Hashable, flight: _Flight) -> None:
        """Stop sharing it; a newer compilation may already have the key."""
        if self._flights.get(key) is flight:
            del self._flights[key]

    def _remember(self, key: str, outcome: Outcome) -> None:
        size = _size(outcome)
        succeeded = outcome.exit_reason is ExitReason.EXITED and outcome.return_code == 0
        whole = bool(outcome.files) and not outcome.left_out
        # The same key may have been compiled under other limits meanwhile.
        if not succeeded or not whole or size > self.capacity or key in self._held:
            return
        self.held_bytes += size
        self._held[key] = outcome
        while self.held_bytes > self.capacity:
            _, oldest = self._held.popitem(last=False)
            self.held_bytes -= _size(oldest)


def _size(outcome: Outcome) -> int:
    files = sum(len(name) + len(content) for name, content in outcome.files.items())
    return files + len(outcome.stdout) + len(outcome.stderr)
