"""The dispatcher: a thread of the gateway that publishes wake-ups and repairs.

Several gateways may each run one: every step is safe to do twice.
"""

import logging
import threading
import time
from collections.abc import Callable

from celery import Celery

from services.common.db.engine import Database
from services.common.gpu.leases import release_stale_devices
from services.common.jobs.idempotency import forget_old_answers
from services.common.jobs.outbox import pending_wake_ups, remove_wake_ups
from services.common.jobs.reconcile import (
    explain_missing_workers,
    recover_expired,
    wake_waiting_queues,
)
from services.common.jobs.workers import forget_dead_workers
from services.common.queue.app import send_wake_up

logger = logging.getLogger(__name__)

OUTBOX_SECONDS = 0.5
"""How often the outbox is looked at when nobody says that there is something new."""


class Dispatcher:
    """Publishes the outbox at once when nudged, and reconciles every few seconds."""

    def __init__(
        self, database: Database, queue: Celery, *, reconcile_seconds: float, grace_seconds: float
    ) -> None:
        self._database = database
        self._queue = queue
        self._reconcile_seconds = reconcile_seconds
        self._grace_seconds = grace_seconds
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Begin in a thread of its own."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """End after the step in progress."""
        self._stopping.set()
        self._news.set()
        self._thread.join(timeout)

    def nudge(self) -> None:
        """Say that the outbox has something new."""
        self._news.set()

    def check(self) -> None:
        """Raise when the thread has died."""
        if not self._thread.is_alive():
            raise RuntimeError("the dispatcher has ended")

    def publish(self) -> int:
        """Give the waiting wake-ups to the broker, one for each queue; return how many."""
        with self._database.read() as session:
            rows = pending_wake_ups(session)
        if not rows:
            return 0
        # A woken worker takes all it can, but several may be idle: keep the count, within reason.
        for row in rows:
            send_wake_up(self._queue, row.queue)
        with self._database.write() as session:
            remove_wake_ups(session, [row.seq for row in rows])
        return len(rows)

    def reconcile(self) -> None:
        """Repair what crashes left behind."""
        with self._database.write() as session:
            recovered = recover_expired(session, self._grace_seconds)
            freed = release_stale_devices(session)
            wake_waiting_queues(session, older_than_seconds=self._reconcile_seconds)
            explain_missing_workers(session)
            forget_old_answers(session)
            forget_dead_workers(session)
        if recovered or freed:
            logger.warning("took %d jobs from lost workers, freed %d devices", recovered, freed)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            self._news.wait(OUTBOX_SECONDS)
            self._news.clear()
            if time.monotonic() >= due:
                self._attempt(self.reconcile)
                due = time.monotonic() + self._reconcile_seconds
            self._attempt(self.publish)

    def _attempt(self, step: Callable[[], object]) -> None:
        """Do one step; a broker or database that is away is waited for, never fatal."""
        try:
            step()
        except Exception:
            logger.exception("dispatcher step failed; it is tried again")
            self._stopping.wait(1.0)
