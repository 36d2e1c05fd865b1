"""A concurrency limit that adapts to a server's capacity."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

FIRST = 128
"""Initial limit, before the server has shown its capacity."""
LOOK_AGAIN_SECONDS = 1.0


class Waiters:
    """Tasks waiting for capacity, at one server or at any of several."""

    def __init__(self) -> None:
        self._futures: deque[asyncio.Future[None]] = deque()

    async def woken(self) -> None:
        """Wait until a request finishes, at most a second, since a pause may be over by then."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._futures.append(future)
        timer = loop.call_later(LOOK_AGAIN_SECONDS, _finish, future)
        try:
            await future
        finally:
            timer.cancel()
            self._drop_done()  # otherwise a long pause would accumulate them

    def wake(self) -> None:
        """Wake two tasks, since an answer may have raised the limit by one."""
        for _ in range(2):
            self._drop_done()
            if self._futures:
                _finish(self._futures.popleft())

    def _drop_done(self) -> None:
        while self._futures and self._futures[0].done():
            self._futures.popleft()


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class AdaptiveLimit:
    """Additive increase, multiplicative decrease, between 1 and ``most`` requests in flight.

    Until the first congestion every success raises the limit by one, so that it doubles in a round
    trip; afterwards a round of successes does. Requests that were sent before the limit was last
    halved do not halve it again. ``waiters`` are woken when a request finishes.
    """

    def __init__(
        self,
        most: int,
        *,
        waiters: Waiters | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._waiters = waiters or Waiters()
        self._clock = clock
        self._limit = float(min(FIRST, most))
        self._cut_at = float("-inf")
        self.paused_until = float("-inf")
        self.in_flight = 0

    @property
    def limit(self) -> int:
        """Requests that may be in flight."""
        return int(self._limit)

    @property
    def has_room(self) -> bool:
        """Whether another request may be sent now."""
        return self.in_flight < self.limit and self._clock() >= self.paused_until

    async def room(self) -> float:
        """Wait until another request may be sent; returns the seconds waited."""
        begun = self._clock()
        while not self.has_room:
            await self._waiters.woken()
        return self._clock() - begun

    def begin(self) -> float:
        """Count a request; returns its time, for `congested`."""
        self.in_flight += 1
        return self._clock()

    def end(self) -> None:
        """Count the end of a request, whatever its outcome."""
        self.in_flight -= 1
        self._waiters.wake()

    def succeeded(self) -> None:
        """Note a success, which may raise the limit."""
        never_cut = self._cut_at == float("-inf")
        step = 1.0 if never_cut else 1.0 / self._limit
        self._limit = min(float(self._most), self._limit + step)

    def congested(self, begun: float, retry_after: float | None = None) -> None:
        """Halve the limit: the server rejected a request begun at ``begun`` for lack of capacity,
        or let it time out. Nothing is sent for the ``retry_after`` seconds that it asked for.
        """
        now = self._clock()
        if begun >= self._cut_at:
            self._cut_at = now
            self._limit = max(1.0, self._limit / 2)
        if retry_after is not None:
            self.paused_until = max(self.paused_until, now + retry_after)
