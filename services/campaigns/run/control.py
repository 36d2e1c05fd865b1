"""Pause, cancellation and shutdown of a running campaign, and its lease; shared by its branches."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from services.campaigns.run.signals import Cause, Interrupted
from services.core.db.engine import DATABASE_AWAY
from services.jobs.worker.run import Lease

POLL_SECONDS = 0.2
CONTROL_SECONDS = 1.0

Value = TypeVar("Value")


class Control:
    """Checks whether a claimed campaign may continue; ``stopping`` is set when its worker stops."""

    def __init__(self, lease: Lease, stopping: threading.Event) -> None:
        self._lease = lease
        self._stopping = stopping
        self._abandoned = threading.Event()
        self._checked = 0.0

    def abandon(self) -> None:
        """Make every later `check` raise `Interrupted`."""
        self._abandoned.set()

    def check(self, *, pausing: bool = False) -> None:
        """Renew the lease; raise `Interrupted` if a user or a limit has stopped the campaign.

        A pause waits for the end of an effect (``pausing``).
        """
        if self._stopping.is_set() or self._abandoned.is_set():
            raise Interrupted(Cause.STOPPING)
        try:
            self._lease.renew_if_due()
            if not pausing and time.monotonic() - self._checked < CONTROL_SECONDS:
                return
            self._checked = time.monotonic()
            job, overdue = self._lease.check()
        except DATABASE_AWAY:
            if self._lease.expired:
                raise
            return
        if job.cancel_requested_at is not None:
            raise Interrupted(Cause.CANCELLED)
        if overdue:
            raise Interrupted(Cause.OVERDUE)
        if pausing and job.pause_requested_at is not None:
            raise Interrupted(Cause.PAUSED)

    def wait_with_lease(
        self, make: Callable[[], Awaitable[Value]], also: Callable[[], None] | None = None
    ) -> Value:
        """Await something external while renewing the lease; it is cancelled on an interrupt.

        ``also`` is called meanwhile, and interrupts by raising.
        """

        async def attended() -> Value:
            work = asyncio.ensure_future(make())
            try:
                while not (await asyncio.wait({work}, timeout=POLL_SECONDS))[0]:
                    self.check()
                    if also is not None:
                        also()
                return work.result()
            finally:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)

        return asyncio.run(attended())

    def acquire(self, lock: threading.Lock) -> None:
        """Acquire a lock; raises `Interrupted` while waiting."""
        while not lock.acquire(timeout=POLL_SECONDS):
            self.check()
