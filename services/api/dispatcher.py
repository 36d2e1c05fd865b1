"""The dispatcher: a gateway thread that delivers the outbox and repairs what a crash left.

Several gateways may each run one: every step is idempotent.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from celery import Celery
from sqlalchemy import delete
from sqlalchemy.orm import Session

from services.core.changes import Changes
from services.core.db.engine import Database, now
from services.core.db.tables import IdempotencyRow
from services.core.process.supervised import lease_clock
from services.jobs.broker import restore_file_broker, send_wake_up
from services.jobs.campaign_records import cancel_orphans
from services.jobs.devices import release_stale_devices
from services.jobs.pause import resume_after_outages
from services.jobs.queues import pending_wake_ups, remove_wake_ups
from services.jobs.reconcile import (
    explain_waiting,
    fail_overdue,
    is_any_under_way,
    recover_expired,
    wake_waiting_queues,
)
from services.jobs.workers import SILENCE_SECONDS, remove_dead_workers

logger = logging.getLogger(__name__)

CLOCK_JUMP_SECONDS = 5.0
"""A larger difference between the database's clock and the monotonic one is a clock jump."""

WAKE_UPS_AT_ONCE = 32
"""Per queue: a woken worker claims all it can, so further messages only wake more workers."""

HOUSEKEEPING_SECONDS = 30.0
"""How often it reconciles while no job is under way."""

IDEMPOTENCY_SECONDS = 24 * 3600.0
"""How long the first response to an Idempotency-Key is stored."""


class _Interruptions:
    """Detects database outages, suspensions and clock jumps, after which leases look expired
    although their workers are alive; the workers then get time to renew them."""

    def __init__(self, pause_seconds: float, hold_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._hold_seconds = hold_seconds
        self._last: tuple[float, float] | None = None
        self._hold_until = 0.0

    def recent(self, database_time: float) -> bool:
        """Whether expired leases may belong to live workers; called in every successful round."""
        clock = lease_clock()
        if self._last is not None:
            elapsed, passed = clock - self._last[0], database_time - self._last[1]
            if elapsed > self._pause_seconds or abs(passed - elapsed) > CLOCK_JUMP_SECONDS:
                self._hold_until = clock + self._hold_seconds
        self._last = (clock, database_time)
        return clock < self._hold_until


class Dispatcher:
    """Publishes the outbox as soon as it hears of it, and reconciles every few seconds.

    ``sweeps`` delete what has expired; they run after each reconciliation.
    """

    def __init__(
        self,
        database: Database,
        queue: Celery,
        *,
        reconcile_seconds: float,
        lease_seconds: float,
        grace_seconds: float,
        sweeps: Sequence[Callable[[Database], object]] = (),
    ) -> None:
        self._database = database
        self._queue = queue
        self._reconcile_seconds = reconcile_seconds
        self._grace_seconds = grace_seconds
        self._sweeps = sweeps
        self._interruptions = _Interruptions(
            pause_seconds=3 * reconcile_seconds + 5.0,
            hold_seconds=max(SILENCE_SECONDS, lease_seconds / 2),
        )
        self._changes = Changes(database)
        self._housekeeping_due = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dispatcher", daemon=True)

    def start(self) -> None:
        """Start the dispatcher thread."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Stop after the current step."""
        self._stopping.set()
        self._changes.interrupt()
        self._thread.join(timeout)

    def nudge(self) -> None:
        """Signal a new outbox entry."""
        self._changes.interrupt()

    def check(self) -> None:
        """Raise when the thread has died."""
        if not self._thread.is_alive():
            raise RuntimeError("the dispatcher thread has died")

    def publish(self) -> int:
        """Publish the pending wake-ups to the broker; return their number."""
        with self._database.read() as session:
            rows = pending_wake_ups(session)
        if not rows:
            return 0
        for queue, count in Counter(row.queue for row in rows).items():
            for _ in range(min(count, WAKE_UPS_AT_ONCE)):
                send_wake_up(self._queue, queue)
        with self._database.write() as session:
            remove_wake_ups(session, [row.seq for row in rows])
        return len(rows)

    def reconcile(self) -> None:
        """Recover from crashes; a failing repair does not prevent the others.

        While no job is under way there is only what expires, which does not need it so often.
        """
        self._attempt(partial(restore_file_broker, self._queue))
        if self._is_idle() and time.monotonic() < self._housekeeping_due:
            return
        self._housekeeping_due = time.monotonic() + HOUSEKEEPING_SECONDS
        for repair in (
            self._recover_lost_jobs,
            fail_overdue,
            resume_after_outages,
            cancel_orphans,
            self._wake_waiting,
            explain_waiting,
            _delete_stored_responses,
            remove_dead_workers,
        ):
            self._attempt(partial(self._commit, repair))
        for sweep in self._sweeps:
            self._attempt(partial(sweep, self._database))

    def _is_idle(self) -> bool:
        try:
            with self._database.read() as session:
                self._interruptions.recent(now(session))
                return not is_any_under_way(session)
        except Exception:  # the repairs say why
            return False

    def _commit(self, repair: Callable[[Session], object]) -> None:
        with self._database.write() as session:
            repair(session)

    def _recover_lost_jobs(self, session: Session) -> None:
        recovered = 0
        if not self._interruptions.recent(now(session)):
            recovered = recover_expired(session, self._grace_seconds)
        freed = release_stale_devices(session)
        if freed:
            wake_waiting_queues(session, older_than_seconds=0.0)
        if recovered or freed:
            logger.warning(
                "recovered %d jobs from lost workers, freed %d devices", recovered, freed
            )

    def _wake_waiting(self, session: Session) -> None:
        wake_waiting_queues(session, older_than_seconds=self._reconcile_seconds)

    def _run(self) -> None:
        due, look = time.monotonic(), False
        while not self._stopping.is_set():
            if time.monotonic() >= due:
                self.reconcile()
                due = time.monotonic() + self._reconcile_seconds
                look = True
            if look and not self._attempt(self.publish):
                continue
            look = self._changes.wait(due - time.monotonic())
        self._changes.close()

    def _attempt(self, step: Callable[[], object]) -> bool:
        """Run one step; an unreachable broker or database is retried, never fatal."""
        try:
            step()
        except Exception:
            logger.exception("dispatcher step failed; retrying")
            self._stopping.wait(1.0)
            return False
        return True


def _delete_stored_responses(session: Session) -> None:
    """Delete responses to Idempotency-Keys that are older than a day."""
    session.execute(
        delete(IdempotencyRow).where(IdempotencyRow.created_at < time.time() - IDEMPOTENCY_SECONDS)
    )
