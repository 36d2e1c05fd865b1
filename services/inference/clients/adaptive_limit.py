"""A limit of concurrent requests that adapts to what a server can take."""

import time
from collections.abc import Callable

FIRST = 32
"""Requests in flight before the server has shown what it can take."""


class AdaptiveLimit:
    """Additive increase, multiplicative decrease, between 1 and ``most`` requests in flight.

    Until the first congestion every success raises the limit by one, so that it doubles in a round
    trip; afterwards a round of successes does. Requests that were sent before the limit was last
    halved do not halve it again.
    """

    def __init__(self, most: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
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

    def begin(self) -> float:
        """Count a request; returns its time, for `congested`."""
        self.in_flight += 1
        return self._clock()

    def end(self) -> None:
        """A request has ended, in any way."""
        self.in_flight -= 1

    def succeeded(self) -> None:
        """The server answered."""
        never_cut = self._cut_at == float("-inf")
        step = 1.0 if never_cut else 1.0 / self._limit
        self._limit = min(float(self._most), self._limit + step)

    def congested(self, begun: float, retry_after: float | None = None) -> None:
        """The server refused for lack of capacity, or let a request of time ``begun`` time out.

        Nothing is sent for the ``retry_after`` seconds that it asks for.
        """
        now = self._clock()
        if begun >= self._cut_at:
            self._cut_at = now
            self._limit = max(1.0, self._limit / 2)
        if retry_after is not None:
            self.paused_until = max(self.paused_until, now + retry_after)
