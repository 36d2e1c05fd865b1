"""Queue names, and the outbox of wake-ups on their way to the broker.

A job that waits for the end of others, as a campaign does, is woken by it, and looks again at a
time of its own in any case.

An outbox row is written in the transaction that made work available and removed once the broker
has the message. A crash in between sends a wake-up twice, which is harmless (at least once).
"""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, exists, select, update
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.contracts.kinds import KINDS, JobKind, kind_of
from services.core.changes import announce_change
from services.core.db.tables import CampaignWaitRow, JobRow, OutboxRow


@dataclass(frozen=True)
class QueueNames:
    """The queues of one job kind: for the validation of its files, then for a device."""

    validation: str
    work: str

    @property
    def both(self) -> tuple[str, str]:
        """Both names, in the order in which a job passes through them."""
        return self.validation, self.work


def queues_of(kind: str) -> QueueNames:
    """The queues of a kind of job."""
    work = kind_of(kind).queue
    return QueueNames(validation=f"{work}.validation", work=work)


def all_queues() -> list[str]:
    """The queues of all kinds."""
    return [name for kind in KINDS for name in queues_of(kind).both]


TRAINING = queues_of(JobKind.FINE_TUNING)
EVALUATION = queues_of(JobKind.EVALUATION)
ROLLOUT = queues_of(JobKind.ROLLOUT)
INDEXING = queues_of(JobKind.INDEXING)
BATCH = queues_of(JobKind.BATCH)
CHECK = queues_of(JobKind.CHECK)
MERGE = queues_of(JobKind.MERGE)
DOWNLOAD = queues_of(JobKind.DOWNLOAD)
EXPORT = queues_of(JobKind.EXPORT)
CAMPAIGN = queues_of(JobKind.CAMPAIGN)
SERVE = queues_of(JobKind.SERVE)

WAKE_UPS_AT_ONCE = 500

_FINAL = [status.value for status in JobStatus if status.is_final]


def add_wake_up(session: Session, queue: str) -> None:
    """Have the dispatcher wake one worker of ``queue``."""
    session.add(OutboxRow(queue=queue, created_at=time.time()))
    announce_change(session)


def wake_once(session: Session, queue: str) -> None:
    """Have one worker of ``queue`` woken, unless a wake-up is pending already."""
    if not session.scalar(select(exists().where(OutboxRow.queue == queue))):
        add_wake_up(session, queue)


def await_any(session: Session, job_id: str, awaited: Collection[str]) -> bool:
    """Record that a job waits for the first end of the ``awaited``, and for no others; false when
    one of them has ended already.

    Locks the awaited jobs, so that none ends unseen before this transaction is committed.
    """
    session.execute(delete(CampaignWaitRow).where(CampaignWaitRow.campaign_id == job_id))
    session.add_all(CampaignWaitRow(campaign_id=job_id, job_id=each) for each in set(awaited))
    query = select(JobRow.status).where(JobRow.id.in_(awaited)).order_by(JobRow.seq)
    return not set(_FINAL).intersection(session.scalars(query.with_for_update(read=True)))


def wake_waiting(session: Session, job_id: str) -> None:
    """Make the jobs that wait for the end of a job due at once.

    One that another transaction has locked is changing, and looks for itself.
    """
    waiting = session.scalars(
        select(JobRow.id)
        .join(CampaignWaitRow, CampaignWaitRow.campaign_id == JobRow.id)
        .where(
            CampaignWaitRow.job_id == job_id,
            JobRow.status == JobStatus.QUEUED.value,
            JobRow.not_before.is_not(None),
        )
        .with_for_update(of=JobRow, skip_locked=True)
    ).all()
    if not waiting:
        return
    due = update(JobRow).where(JobRow.id.in_(waiting)).values(not_before=None)
    for queue in session.scalars(due.returning(JobRow.queue)):
        add_wake_up(session, queue)


def pending_wake_ups(session: Session) -> Sequence[OutboxRow]:
    """The unsent wake-ups, oldest first."""
    return session.scalars(select(OutboxRow).order_by(OutboxRow.seq).limit(WAKE_UPS_AT_ONCE)).all()


def remove_wake_ups(session: Session, seqs: Sequence[int]) -> None:
    """Delete wake-ups that the broker has accepted."""
    session.execute(delete(OutboxRow).where(OutboxRow.seq.in_(seqs)))
