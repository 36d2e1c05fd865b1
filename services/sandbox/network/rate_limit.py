"""Rate limiting: spreads the load that programs cause over time."""

import time
from collections.abc import Callable

_BURST_SECONDS = 0.25


class RateLimit:
    """Allows ``rate`` units per second, with bursts of a quarter of a second's worth."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._due = clock() - _BURST_SECONDS

    def reserve(self, amount: float) -> float:
        """Consume ``amount`` units; return the seconds to wait first."""
        now = self._clock()
        self._due = max(self._due, now - _BURST_SECONDS) + amount / self._rate
        return max(0.0, self._due - now)
