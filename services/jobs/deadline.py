"""Deadlines: a job that has not ended by its own fails, and keeps its checkpoints.

The dispatcher fails jobs that wait; the worker of a running one first asks it for a checkpoint.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from services.contracts.failures import FailureCode
from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import now
from services.core.db.tables import JobRow
from services.jobs.job import Job, job_from_row
from services.jobs.store import fail_job

WAITING = (JobStatus.VALIDATING_FILES, JobStatus.QUEUED, JobStatus.PAUSED)


def is_overdue(session: Session, job: Job) -> bool:
    """Whether the deadline of a job has passed, by the database's clock."""
    return job.deadline_at is not None and job.deadline_at <= now(session)


def deadline_error(job: Job) -> JobError:
    """The failure of an overdue job."""
    seconds = job.request.get("deadline_seconds")
    return JobError(
        code=FailureCode.DEADLINE_EXCEEDED,
        message=f"the job did not end within its deadline of {seconds} s",
        param="deadline_seconds",
    )


def fail_overdue(session: Session) -> int:
    """Fail the jobs that wait past their deadline; return their number."""
    overdue = session.scalars(
        select(JobRow)
        .where(
            JobRow.deadline_at <= now(session),
            JobRow.owner.is_(None),
            JobRow.status.in_([status.value for status in WAITING]),
        )
        .with_for_update(skip_locked=True)
    ).all()
    for job in [job_from_row(row) for row in overdue]:
        fail_job(session, job, deadline_error(job))
    return len(overdue)
