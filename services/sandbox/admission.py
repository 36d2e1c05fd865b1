"""Admission control: which programs run now, and a bounded queue for the others.

A sleeping program does not block others: beyond the first few, a program is admitted while the
running ones leave enough processors and memory. The queue rejects early: a request is refused when
its expected wait exceeds its queue timeout.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from services.contracts.errors import GatewayTimeout

WINDOW_SECONDS = 5.0
"""Window of the throughput estimate: it covers one to two of these, once the first has passed."""
LONGEST_RETRY_AFTER = 30.0
SETTLE_SECONDS = 0.1
"""A program admitted more recently counts as busy; after that its processes are inspected."""
SAMPLE_SECONDS = 0.05
"""Interval at which the load is sampled while requests wait."""
OVERSUBSCRIPTION = 4
"""How far processors are oversubscribed before a waiting request is refused."""


class QueueFull(GatewayTimeout):
    """No capacity for a program, and none is expected before the queue timeout."""

    code = "queue_full"


class ThroughputEstimate:
    """Estimates how fast the queue moves, from the grants of the last seconds."""

    def __init__(self) -> None:
        self._earlier = self._since = math.inf
        self._turns_earlier = self._turns = 0

    def begin(self, now: float) -> None:
        """Start measuring: the queue was empty before."""
        self._earlier = self._since = now
        self._turns_earlier = self._turns = 0

    def grant(self, now: float) -> None:
        """Count a grant."""
        if now - self._since > WINDOW_SECONDS:
            self._earlier, self._since = self._since, now
            self._turns_earlier, self._turns = self._turns, 0
        self._turns += 1

    def seconds_for(self, turns: int, now: float) -> float:
        """Shortest plausible wait for ``turns`` grants at the recent rate; 0 until observed long
        enough.

        The count is taken as Poisson, two standard deviations above the observed one, so that few
        grants, as while the first slots start, do not cause many refusals.
        """
        watched = now - self._earlier
        if watched < WINDOW_SECONDS:
            return 0.0
        seen = self._turns_earlier + self._turns + 1
        return turns * watched / (seen + 2 * math.sqrt(seen))


@dataclass
class QueueStats:
    """How many requests the queue has refused."""

    refused_immediately: int = 0
    refused_after_waiting: int = 0


class Load(Protocol):
    """What running programs leave of the machine."""

    def has_room(self, memory_bytes: int, recent: Sequence[int], max_busy: int) -> bool:
        """Whether one more program that may use ``memory_bytes`` can run.

        Including it, at most ``max_busy`` programs may compute. ``recent`` are the memory limits of
        those just admitted, whose usage does not show yet.
        """
        ...


@dataclass(frozen=True, eq=False)
class Permit:
    """The right of one program to run, since ``granted_at`` by the event loop's clock."""

    memory_bytes: int
    granted_at: float


@dataclass(frozen=True, eq=False)
class _Waiter:
    """A request in the queue."""

    grant: asyncio.Future[Permit]
    memory_bytes: int
    since: float
    queue_timeout: float


class Admission:
    """Grants at most ``slots`` permits, in order of arrival. Belongs to one event loop.

    The first ``busy_slots`` are granted regardless of the ``load``, further ones only with room for
    them. Without a load, all are granted.
    """

    def __init__(self, slots: int, busy_slots: int | None = None, load: Load | None = None) -> None:
        self.slots = slots
        self.busy_slots = slots if load is None or busy_slots is None else busy_slots
        self.stats = QueueStats()
        self._load = load
        self._held: dict[Permit, None] = {}  # in order of their grants
        self._waiting: dict[_Waiter, None] = {}  # in order of arrival
        self._all_free = asyncio.Event()
        self._throughput = ThroughputEstimate()
        self._next_sample: asyncio.TimerHandle | None = None

    @property
    def running(self) -> int:
        """Permits held."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._waiting)

    @asynccontextmanager
    async def permit(self, queue_timeout: float, memory_bytes: int = 0) -> AsyncIterator[None]:
        """Hold a permit, waiting at most ``queue_timeout`` seconds; raises `QueueFull`.

        A request that is cancelled while it waits leaves the queue.
        """
        permit = await self.acquire(queue_timeout, memory_bytes)
        try:
            yield
        finally:
            self.release(permit)

    async def acquire(self, queue_timeout: float, memory_bytes: int = 0) -> Permit:
        """Acquire a permit, to be returned with `release`; raises `QueueFull`."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if not self._waiting and self._admits(memory_bytes, self.busy_slots, now):
            return self._hold(memory_bytes, now)
        self._check_expected_wait(queue_timeout, now)
        if not self._waiting:
            self._throughput.begin(now)
        waiter = _Waiter(loop.create_future(), memory_bytes, now, queue_timeout)
        self._waiting[waiter] = None
        alarm = loop.call_later(queue_timeout, self._expire, waiter)
        self._schedule_sample()
        try:
            return await waiter.grant
        except asyncio.CancelledError:
            grant = waiter.grant
            if grant.done() and not grant.cancelled() and grant.exception() is None:
                self.release(grant.result())  # granted at the same moment
            raise
        finally:
            alarm.cancel()
            self._leave(waiter)

    def release(self, permit: Permit) -> None:
        """Return a permit."""
        del self._held[permit]
        self._grant()
        if not self._held:
            self._all_free.set()

    async def drained(self) -> None:
        """Wait until every slot is free."""
        while self.running:
            self._all_free.clear()
            await self._all_free.wait()

    def _admits(self, memory_bytes: int, max_busy: int, now: float) -> bool:
        if self.running < self.busy_slots:
            return True
        if self._load is None or self.running >= self.slots:
            return False
        recent = []
        for permit in reversed(self._held):
            if now - permit.granted_at >= SETTLE_SECONDS:
                break
            recent.append(permit.memory_bytes)
        return self._load.has_room(memory_bytes, recent, max_busy)

    def _hold(self, memory_bytes: int, now: float) -> Permit:
        permit = Permit(memory_bytes, now)
        self._held[permit] = None
        return permit

    def _grant(self) -> None:
        """Grant permits from the head of the queue while there is room."""
        while self._waiting:
            first = next(iter(self._waiting))
            if first.grant.done():  # cancelled, and about to leave the queue
                del self._waiting[first]
                continue
            now = first.grant.get_loop().time()
            is_late = now - first.since >= first.queue_timeout / 2
            max_busy = self.busy_slots * (OVERSUBSCRIPTION if is_late else 1)
            if not self._admits(first.memory_bytes, max_busy, now):
                break
            del self._waiting[first]
            self._throughput.grant(now)
            first.grant.set_result(self._hold(first.memory_bytes, now))
        self._schedule_sample()

    def _schedule_sample(self) -> None:
        """Sample the load again, unless only the end of a program can make room."""
        if self._next_sample is None and self._waiting and self.running < self.slots:
            loop = next(iter(self._waiting)).grant.get_loop()
            self._next_sample = loop.call_later(SAMPLE_SECONDS, self._sample_again)

    def _sample_again(self) -> None:
        self._next_sample = None
        self._grant()

    def _leave(self, waiter: _Waiter) -> None:
        """Remove a request from the queue; the next one may need less."""
        if waiter in self._waiting:
            del self._waiting[waiter]
            self._grant()

    def _check_expected_wait(self, queue_timeout: float, now: float) -> None:
        expected = (
            self._throughput.seconds_for(len(self._waiting) + 1, now) if self._waiting else 0.0
        )
        if expected > queue_timeout or queue_timeout <= 0:
            self.stats.refused_immediately += 1
            raise QueueFull(
                f"{self.running} programs are running and {len(self._waiting)} requests are "
                f"waiting: about {expected:.0f} s, longer than this request can wait",
                retry_after=min(LONGEST_RETRY_AFTER, max(1.0, expected - queue_timeout)),
            )

    def _expire(self, waiter: _Waiter) -> None:
        if not waiter.grant.done():
            self.stats.refused_after_waiting += 1
            waiter.grant.set_exception(
                QueueFull(
                    f"no slot became free within {waiter.queue_timeout:.0f} s", retry_after=1.0
                )
            )
