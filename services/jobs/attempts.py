"""The history of a job's attempts: which worker held it, with which devices, and how it ended.

An attempt is one claim of the job for work. It ends with the job's move out of ``running``; a
worker that was lost held the job until then.
"""

import time
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.tables import AttemptRow
from services.jobs.events import storable_text
from services.jobs.job import Job


def begin_attempt(session: Session, job: Job, host: str, devices: Sequence[str]) -> None:
    """Record that the owner of a claimed job started work with these devices."""
    row = AttemptRow(
        job_id=job.id,
        epoch=job.epoch,
        attempt=job.attempt,
        worker=str(job.owner),
        host=host,
        devices=list(devices),
        started_at=time.time(),
    )
    session.add(row)
    session.flush()


def end_attempt(session: Session, job: Job, became: JobStatus, reason: str) -> None:
    """Record how a job's current attempt ended; does nothing without one, as for campaigns."""
    where = AttemptRow.job_id == job.id, AttemptRow.epoch == job.epoch
    values = {"ended_at": time.time(), "became": became.value, "reason": storable_text(reason)}
    session.execute(update(AttemptRow).where(*where).values(**values))


def run_seconds(session: Session, job_ids: Collection[str]) -> Mapping[str, float]:
    """How long the attempts of each of these jobs have lasted together, until now where one still
    does; jobs without attempts are left out."""
    end = func.coalesce(AttemptRow.ended_at, time.time())
    total = func.sum(end - AttemptRow.started_at)
    where = AttemptRow.job_id.in_(job_ids)
    rows = session.execute(
        select(AttemptRow.job_id, total).where(where).group_by(AttemptRow.job_id)
    )
    return {job_id: max(0.0, float(seconds)) for job_id, seconds in rows}


def run_times(
    session: Session, spans: Mapping[str, tuple[float | None, float | None]]
) -> Mapping[str, float]:
    """`run_seconds` of jobs, given with their start and end; those without attempts count from
    one to the other."""
    known = run_seconds(session, spans)
    return {
        job_id: known.get(job_id, _span(started, finished))
        for job_id, (started, finished) in spans.items()
    }


def counted_gpus(gpus: int | None) -> int:
    """The GPUs that a job's time counts for: one where it names no number, none on other slots."""
    return 1 if gpus is None else max(0, gpus)


def _span(started: float | None, finished: float | None) -> float:
    if started is None:
        return 0.0
    return max(0.0, (time.time() if finished is None else finished) - started)


def list_attempts(
    session: Session, job_id: str, before: int | None, limit: int
) -> tuple[list[AttemptRow], bool]:
    """Up to ``limit`` attempts, latest first, before an epoch (None: the latest), and whether there
    are more."""
    query = select(AttemptRow).where(AttemptRow.job_id == job_id)
    if before is not None:
        query = query.where(AttemptRow.epoch < before)
    rows = session.scalars(query.order_by(AttemptRow.epoch.desc()).limit(limit + 1)).all()
    return list(rows[:limit]), len(rows) > limit
