"""Claims and releases campaigns that can take a step. A claim holds no device."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.engine import now
from services.core.db.tables import JobRow
from services.jobs.claims import Claim, Claimant, ClaimStage, take_job
from services.jobs.job import Job, job_from_row
from services.jobs.queues import CAMPAIGN, add_wake_up, await_any
from services.jobs.store import move_job

FALLBACK_SECONDS = 60.0
"""Maximum time until a waiting campaign checks again, whatever it waits for."""


def claim_step(session: Session, claimant: Claimant) -> Claim | None:
    """Claim the queued campaign that has waited longest among those that are due."""
    query = (
        select(JobRow)
        .where(
            JobRow.queue == CAMPAIGN.work,
            JobRow.status == JobStatus.QUEUED.value,
            or_(JobRow.not_before.is_(None), JobRow.not_before <= now(session)),
        )
        .order_by(JobRow.priority.desc(), JobRow.updated_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    row = session.scalar(query)
    if row is None:
        return None
    job = job_from_row(row)
    return Claim(take_job(session, job, claimant, attempt=job.attempt or 1), ClaimStage.WORK)


def release(
    session: Session,
    job: Job,
    reason: str,
    jobs: Collection[str],
    seconds_left: float | None = None,
    *,
    has_begun: bool = True,
) -> None:
    """Queue a claimed campaign until one of ``jobs`` has ended, or without jobs for a while.

    It resumes after ``seconds_left`` at the latest, when its time budget ends; the budget does not
    run before it ``has_begun``.
    """
    seconds = FALLBACK_SECONDS if seconds_left is None else min(FALLBACK_SECONDS, seconds_left)
    changes: dict[str, Any] = {"queue_reason": reason, "losses": 0}
    if await_any(session, job.id, jobs):
        changes["not_before"] = now(session) + seconds
    else:
        add_wake_up(session, job.queue)
    if not has_begun:
        changes["started_at"] = None
    move_job(session, job, JobStatus.QUEUED, reason[:1].upper() + reason[1:], **changes)
