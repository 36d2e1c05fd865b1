"""Deleting finished jobs with everything they left: events, checkpoints, models, the folder."""

import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import delete, exists, or_, select
from sqlalchemy.orm import Session

from services.api.models.service import check_unused, remove_model
from services.contracts.errors import Conflict, NotFound
from services.contracts.jobs import JobStatus
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import (
    AlertRow,
    AttemptRow,
    CampaignEffectRow,
    CampaignRow,
    CampaignScriptRow,
    CampaignStepRow,
    CampaignWaitRow,
    CheckpointPermissionRow,
    CheckpointRow,
    EventRow,
    JobRow,
    ModelRow,
    NoteRow,
)
from services.jobs.store import get_job
from services.models.registry import checkpoint_name

logger = logging.getLogger(__name__)

_FINAL = [status.value for status in JobStatus if status.is_final]
DAY_SECONDS = 86_400.0
MAX_JOBS_PER_ROUND = 20
"""Maximum jobs that one round of `Retention` deletes."""


def remove_job(
    session: Session, artifacts: Artifacts, job_id: str, kind: str | None = None
) -> Path:
    """Delete the rows of a finished job and of its models; return the folder to remove.

    Raises `Conflict` while the job is not finished, or while another job or an adapter needs one
    of its models or checkpoints.
    """
    job = get_job(session, job_id, kind, lock=True)
    if not job.status.is_final:
        raise Conflict(f"job {job_id} is {job.status}; cancel it first", code="job_not_final")
    steps = session.scalars(select(CheckpointRow.step).where(CheckpointRow.job_id == job_id))
    for step in steps.all():
        check_unused(session, checkpoint_name(job_id, step))
    # Of checkpoints that were replaced by later ones, too.
    granted = CheckpointPermissionRow.checkpoint.startswith(f"{job_id}:step-", autoescape=True)
    session.execute(delete(CheckpointPermissionRow).where(granted))
    models = session.scalars(select(ModelRow.id).where(ModelRow.job_id == job_id))
    for model_id in models.all():
        remove_model(session, artifacts, model_id)
    for table in (EventRow, AttemptRow, NoteRow, CheckpointRow, AlertRow):
        session.execute(delete(table).where(table.job_id == job_id))
    for part in (CampaignEffectRow, CampaignScriptRow, CampaignStepRow, CampaignWaitRow):
        session.execute(delete(part).where(part.campaign_id == job_id))
    session.execute(delete(CampaignRow).where(CampaignRow.id == job_id))
    session.execute(delete(JobRow).where(JobRow.id == job_id))
    return artifacts.job(job_id)


def remove_folder(folder: Path) -> None:
    """Delete a job's folder; what cannot be deleted is left and logged."""
    shutil.rmtree(folder, onerror=lambda _call, path, error: logger.warning("%s: %s", path, error))


@dataclass(frozen=True)
class Retention:
    """How long finished jobs are kept: for ``days``, and the newest ``jobs``; None: no limit.

    Jobs whose model is registered, or whose checkpoint is the base of an adapter, are kept until
    those models are deleted.
    """

    artifacts: Artifacts
    days: float | None = None
    jobs: int | None = None

    def apply(self, database: Database) -> int:
        """Delete jobs beyond the limits, a few per round; return their number."""
        if self.days is None and self.jobs is None:
            return 0
        with database.read() as session:
            expired = self._expired(session)
        return sum(self._delete(database, job_id) for job_id in expired)

    def _expired(self, session: Session) -> list[str]:
        """Ids of jobs beyond the limits, oldest first."""
        needed = or_(ModelRow.job_id == JobRow.id, ModelRow.base.like(JobRow.id + ":%"))
        finished = select(JobRow.id).where(JobRow.status.in_(_FINAL), ~exists().where(needed))
        oldest = finished.order_by(JobRow.finished_at, JobRow.seq).limit(MAX_JOBS_PER_ROUND)
        expired: list[str] = []
        if self.days is not None:
            before = time.time() - self.days * DAY_SECONDS
            expired += session.scalars(oldest.where(JobRow.finished_at < before)).all()
        if self.jobs is not None:
            newest = finished.order_by(JobRow.finished_at.desc(), JobRow.seq.desc())
            expired += session.scalars(newest.offset(self.jobs).limit(MAX_JOBS_PER_ROUND)).all()
        return list(dict.fromkeys(expired))

    def _delete(self, database: Database, job_id: str) -> bool:
        try:
            with database.write() as session:
                folder = remove_job(session, self.artifacts, job_id)
        except (Conflict, NotFound) as error:  # in use, or deleted by another gateway
            logger.info("job %s was not deleted: %s", job_id, error)
            return False
        remove_folder(folder)
        logger.info("deleted job %s, which was past its retention", job_id)
        return True
