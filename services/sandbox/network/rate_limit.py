"""Spreads the work that programs cause over time, so that it never fills a second."""

import time
from collections.abc import Callable

_BURST_SECONDS = 0.25


class Pace:
    """Allows ``rate`` units a second; a quarter of a second's worth may come at once."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._due = clock() - _BURST_SECONDS

    def reserve(self, amount: float) -> float:
        """Take ``amount`` units; return the seconds to wait before it is their turn."""
        now = self._clock()
        self._due = max(self._due, now - _BURST_SECONDS) + amount / self._rate
        return max(0.0, self._due - now)
