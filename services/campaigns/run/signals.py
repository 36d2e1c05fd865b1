"""Why a step ends without an output, and what notices it: pause, cancellation and shutdown of a
running campaign, and its lease, which its branches share.

After `StepFailed` the loop continues with its feedback. The others leave the loop; the step resumes
later from its recorded effects.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TypeVar

from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import Failure
from services.contracts.errors import TemperError
from services.core.db.engine import DATABASE_AWAY
from services.jobs.worker.run import Lease


class StepFailed(TemperError):
    """The attempt failed; the LLM reads the message."""

    code = "step_failed"

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


class Waiting(Exception):
    """Nothing can proceed until one of ``jobs`` has ended, or without jobs for some time."""

    def __init__(self, reason: str, *jobs: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.jobs = jobs


class OutOfTurn(Waiting):
    """Another loop must take its step first; ``changes`` is the number of step changes seen."""

    def __init__(self, reason: str, changes: int) -> None:
        super().__init__(reason)
        self.changes = changes


class BudgetSpent(Exception):
    """A budget limit is reached."""

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit)
        self.limit = limit


class Cause(StrEnum):
    """An interrupt of a step."""

    STOPPING = "stopping"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    OVERDUE = "overdue"


class Interrupted(Exception):
    """The worker must release the campaign."""

    def __init__(self, cause: Cause) -> None:
        super().__init__(cause)
        self.cause = cause


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
