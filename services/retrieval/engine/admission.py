"""Admission control with a bounded queue: reject early when the expected wait exceeds the
deadline."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from services.contracts.errors import Unavailable

WATCHED_SECONDS = 2.0
WATCHED_QUERIES = 50
"""The throughput is measured over busy periods of at least this much time and this many queries,
and reset when idle: what slowed it down, such as a starting encoder, may be over."""
LONGEST_RETRY_AFTER = 30.0


class Overloaded(Unavailable):
    """More queries are in flight than can be answered in time."""

    code = "overloaded"


class QueryAdmission:
    """Counts queries in flight, and admits up to ``limit``.

    A request is admitted whatever its size when nothing else is in flight. It is rejected when, at
    the recent throughput, its turn would come after its deadline.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.in_flight = 0
        self.refused = 0
        self._clock = clock
        self._began = 0.0
        self._answered = 0
        self._pace = 0.0  # queries per second; 0 while unknown

    @contextmanager
    def permits(self, queries: int, seconds: float) -> Iterator[None]:
        """Hold permits for a request that times out in ``seconds``; raises `Overloaded`."""
        now = self._clock()
        self._check(queries, seconds)
        if self.in_flight == 0:
            self._began, self._answered = now, 0
        self.in_flight += queries
        try:
            yield
        finally:
            self.in_flight -= queries
            self._note(queries)

    def _check(self, queries: int, seconds: float) -> None:
        if self.in_flight == 0:
            return
        expected = self.in_flight / self._pace if self._pace else 0.0
        if self.in_flight + queries <= self.limit and expected <= seconds:
            return
        self.refused += 1
        raise Overloaded(
            f"{self.in_flight} queries are in flight"
            + (f", about {expected:.1f} s of work" if expected else ""),
            retry_after=min(LONGEST_RETRY_AFTER, max(1.0, expected - seconds)),
        )

    def _note(self, queries: int) -> None:
        self._answered += queries
        now = self._clock()
        if self.in_flight == 0:
            self._pace = 0.0
        elif now - self._began >= WATCHED_SECONDS and self._answered >= WATCHED_QUERIES:
            self._pace = self._answered / (now - self._began)
            self._began, self._answered = now, 0
