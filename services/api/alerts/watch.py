"""Raises and resolves alerts: a sweep of the dispatcher over unfinished jobs and the disk."""

import shutil
import time
from pathlib import Path

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from services.api.alerts.service import open_alerts, raise_alert, resolve_alert
from services.api.alerts.signals import AlertBounds, Finding, JobSignals
from services.contracts.alerts import AlertRule
from services.contracts.jobs import JobKind, JobStatus
from services.core.db.engine import Database
from services.core.db.tables import EventRow, JobRow
from services.jobs.job import has_shown_status

SWEEP_SECONDS = 30.0
EVENTS_AT_ONCE = 2000
_RUNNING = JobStatus.RUNNING.value

Subject = tuple[str | None, AlertRule]
"""A job, None for the host, and a rule."""


class AlertWatch:
    """Compares what holds now with the alerts that are raised.

    The metrics of running jobs are read once each; after a restart of the gateway again. Alerts of
    a job are resolved when it no longer runs. Several gateways may each run one: an alert that
    another one has raised is found, not raised again.
    """

    def __init__(self, home: Path, bounds: AlertBounds) -> None:
        self._home = home
        self._bounds = bounds
        self._signals: dict[str, JobSignals] = {}
        self._swept_at = -SWEEP_SECONDS

    def apply(self, database: Database) -> None:
        """Sweep, if the last sweep is long enough ago."""
        if time.monotonic() - self._swept_at < SWEEP_SECONDS:
            return
        self._swept_at = time.monotonic()
        self.sweep(database)

    def sweep(self, database: Database) -> None:
        """Raise what holds and resolve what does not."""
        with database.read() as session:
            holding = self._jobs(session) | self._waiting(session) | self._disk()
            raised = open_alerts(session)
        if holding.keys() == raised.keys():
            return
        with database.write() as session:
            raised = open_alerts(session)
            for subject, finding in holding.items():
                if subject not in raised:
                    raise_alert(session, subject[0], subject[1], finding)
            for subject, alert in raised.items():
                if subject not in holding:
                    resolve_alert(session, alert)

    def _jobs(self, session: Session) -> dict[Subject, Finding]:
        running = session.execute(
            select(JobRow.id, JobRow.kind).where(JobRow.status == _RUNNING)
        ).all()
        self._signals = {
            job_id: self._signals.get(job_id) or JobSignals(self._bounds, JobKind(kind))
            for job_id, kind in running
        }
        found: dict[Subject, Finding] = {}
        for job_id, signals in self._signals.items():
            self._read(session, job_id, signals)
            found |= {(job_id, rule): each for rule, each in signals.findings().items()}
        return found

    def _read(self, session: Session, job_id: str, signals: JobSignals) -> None:
        where = EventRow.job_id == job_id, EventRow.number > signals.position
        metrics = select(EventRow.number, EventRow.data).where(*where, EventRow.type == "metrics")
        for number, data in session.execute(
            metrics.order_by(EventRow.number).limit(EVENTS_AT_ONCE)
        ):
            signals.position = number
            signals.read(data or {})

    def _waiting(self, session: Session) -> dict[Subject, Finding]:
        bound = self._bounds.wait_seconds
        late = JobRow.updated_at < time.time() - bound
        waiting = select(JobRow.id, JobRow.updated_at, JobRow.queue_reason)
        is_queued = has_shown_status(JobStatus.QUEUED)
        unchecked = has_shown_status(JobStatus.VALIDATING_FILES)
        rows = session.execute(waiting.where(or_(is_queued, unchecked), late))
        return {
            (job_id, AlertRule.JOB_WAITS): _waits(time.time() - since, reason, bound)
            for job_id, since, reason in rows
        }

    def _disk(self) -> dict[Subject, Finding]:
        usage = shutil.disk_usage(self._home)
        free = usage.free / usage.total
        if free >= self._bounds.disk_share:
            return {}
        message = f"{usage.free / 2**30:.1f} GiB ({free:.1%}) of the disk of {self._home} are free"
        return {(None, AlertRule.DISK_NEARLY_FULL): Finding(message, free, self._bounds.disk_share)}


def _waits(seconds: float, reason: str | None, bound: float) -> Finding:
    why = f": {reason}" if reason else ""
    return Finding(f"the job has waited for {seconds / 60:.0f} minutes{why}", seconds, bound)
