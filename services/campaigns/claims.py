"""Claims and releases campaigns that can take a step. A claim holds no device."""

import time
from collections.abc import Collection
from typing import Any

from sqlalchemy import delete, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from services.contracts.jobs import JobStatus
from services.core.db.engine import now
from services.core.db.tables import CampaignWaitRow, JobRow
from services.jobs.claims import Claim, Claimant, ClaimStage
from services.jobs.job import Job, LeaseLost, job_from_row
from services.jobs.queues import CAMPAIGN
from services.jobs.store import get_job, move_job

FALLBACK_SECONDS = 60.0
"""Maximum time until a waiting campaign checks again, whatever it waits for."""

_FINAL = [status.value for status in JobStatus if status.is_final]


def claim_step(session: Session, claimant: Claimant) -> Claim | None:
    """Claim the queued campaign that has waited longest among those that are ready."""
    awaited = aliased(JobRow)
    ended = exists().where(
        CampaignWaitRow.campaign_id == JobRow.id,
        awaited.id == CampaignWaitRow.job_id,
        awaited.status.in_(_FINAL),
    )
    query = (
        select(JobRow)
        .where(
            JobRow.queue == CAMPAIGN.work,
            JobRow.status == JobStatus.QUEUED.value,
            or_(
                JobRow.not_before.is_(None),
                JobRow.not_before <= now(session),
                ended,
            ),
        )
        .order_by(JobRow.priority.desc(), JobRow.updated_at)
        .limit(1)
        .with_for_update(of=JobRow, skip_locked=True)
    )
    row = session.scalar(query)
    return (
        None if row is None else Claim(_take(session, job_from_row(row), claimant), ClaimStage.WORK)
    )


def next_due(session: Session) -> float | None:
    """Return when a waiting campaign becomes ready by the passing of time; None without any.

    0 if there is one that does not wait for a time.
    """
    waiting = (JobStatus.VALIDATING_FILES.value, JobStatus.QUEUED.value)
    due: float | None = session.scalar(
        select(func.min(func.coalesce(JobRow.not_before, 0.0))).where(
            JobRow.queue == CAMPAIGN.work, JobRow.status.in_(waiting)
        )
    )
    return due


def _take(session: Session, job: Job, claimant: Claimant) -> Job:
    started = time.time()
    taken = session.scalar(
        update(JobRow)
        .where(
            JobRow.id == job.id,
            JobRow.status == JobStatus.QUEUED.value,
            JobRow.epoch == job.epoch,
        )
        .values(
            status=JobStatus.RUNNING.value,
            owner=claimant.owner,
            epoch=job.epoch + 1,
            attempt=job.attempt or 1,
            lease_expires_at=now(session) + claimant.lease_seconds,
            started_at=job.started_at or started,
            updated_at=started,
            queue_reason=None,
            not_before=None,
        )
        .returning(JobRow.id)
    )
    if taken is None:
        raise LeaseLost(f"campaign {job.id} was claimed by another worker")
    return get_job(session, job.id)


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
    session.execute(delete(CampaignWaitRow).where(CampaignWaitRow.campaign_id == job.id))
    session.add_all(CampaignWaitRow(campaign_id=job.id, job_id=each) for each in set(jobs))
    message = reason[:1].upper() + reason[1:]
    seconds = FALLBACK_SECONDS if seconds_left is None else min(FALLBACK_SECONDS, seconds_left)
    later = now(session) + seconds
    changes: dict[str, Any] = {"queue_reason": reason, "not_before": later, "losses": 0}
    if not has_begun:
        changes["started_at"] = None
    move_job(session, job, JobStatus.QUEUED, message, **changes)
