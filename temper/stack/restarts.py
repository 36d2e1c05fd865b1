"""How often, and after how long, a service that died is started again."""

from collections import deque

MOST_RESTARTS = 5
WITHIN_SECONDS = 300.0
FIRST_DELAY_SECONDS = 1.0


class Restarts:
    """The recent restarts of one service: `MOST_RESTARTS` within `WITHIN_SECONDS`.

    ``first_delay`` seconds pass before the first, twice as many before each further one.
    """

    def __init__(self, first_delay: float = FIRST_DELAY_SECONDS) -> None:
        self._first_delay = first_delay
        self._deaths: deque[float] = deque()

    def after_death(self, now: float) -> float | None:
        """Take note of a death; return the seconds to the restart, None when that is too many.

        ``now`` is a reading of a monotonic clock in seconds.
        """
        while self._deaths and self._deaths[0] <= now - WITHIN_SECONDS:
            self._deaths.popleft()
        if len(self._deaths) >= MOST_RESTARTS:
            return None
        delay: float = self._first_delay * 2 ** len(self._deaths)
        self._deaths.append(now)
        return delay
