"""The status that users see: a campaign that waits for its jobs is running, though it is queued.

Its worker gives it back while a job, an LLM or a script that it needs is busy, with a reason, and
takes it again after that.
"""

from sqlalchemy import ColumnElement, and_, case, not_, or_

from services.contracts.jobs import JobKind, JobStatus
from services.core.db.tables import JobRow
from services.jobs.job import Job

ITS_TURN = "waiting for its turn"
"""``queue_reason`` of a job that any worker may take."""
_WAITS = "waiting for "


def shown_status(job: Job) -> JobStatus:
    """The status of a job for users."""
    reason = job.queue_reason or ""
    is_amid_steps = (
        job.kind == JobKind.CAMPAIGN
        and job.status is JobStatus.QUEUED
        and job.started_at is not None
        and reason.startswith(_WAITS)
        and reason != ITS_TURN
    )
    return JobStatus.RUNNING if is_amid_steps else job.status


def has_shown_status(status: JobStatus) -> ColumnElement[bool]:
    """Whether `shown_status` of a row is ``status``; an index of statuses serves it."""
    running, queued = JobStatus.RUNNING.value, JobStatus.QUEUED.value
    if status is JobStatus.RUNNING:
        is_running = or_(JobRow.status == running, _is_amid_steps())
        return and_(JobRow.status.in_([running, queued]), is_running)
    has_status = JobRow.status == status.value
    return and_(has_status, not_(_is_amid_steps())) if status is JobStatus.QUEUED else has_status


def shown_status_column() -> ColumnElement[str]:
    """`shown_status` as a column."""
    return case((_is_amid_steps(), JobStatus.RUNNING.value), else_=JobRow.status)


def _is_amid_steps() -> ColumnElement[bool]:
    reason = JobRow.queue_reason
    return and_(
        JobRow.kind == JobKind.CAMPAIGN.value,
        JobRow.status == JobStatus.QUEUED.value,
        JobRow.started_at.is_not(None),
        reason.is_not(None),
        reason.startswith(_WAITS),
        reason != ITS_TURN,
    )
