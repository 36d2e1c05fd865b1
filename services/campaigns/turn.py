"""The turn of a claimed campaign: it is validated, or advanced until it must wait, and released."""

import logging
import threading
from collections.abc import Collection
from typing import Any

from sqlalchemy.orm import Session

from services.campaigns.data.benchmark import divide, read_items
from services.campaigns.gateway import GatewayAway
from services.campaigns.loop import advance
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import Cause, Interrupted, Waiting
from services.campaigns.scripts.offer import check_scripts
from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.errors import InvalidRequest, TemperError
from services.contracts.jobs import JobError, JobStatus
from services.core.artifacts import Artifacts
from services.core.db.engine import DATABASE_AWAY, Database, now
from services.jobs.campaign_records import cancel_orphans
from services.jobs.claims import Claim, ClaimStage, check_claim
from services.jobs.job import Job, LeaseLost, deadline_error
from services.jobs.queues import add_wake_up, await_any
from services.jobs.store import fail_job, move_job

logger = logging.getLogger(__name__)


class CampaignTurn:
    """Takes the steps of claimed campaigns, in the threads that claimed them."""

    def __init__(self, database: Database, settings: CampaignSettings) -> None:
        self._database = database
        self._settings = settings

    def take(self, claim: Claim, deadline: float, stopping: threading.Event) -> None:
        """Validate a campaign, or advance it until it must wait, and record its state."""
        try:
            if claim.stage is ClaimStage.VALIDATION:
                self._validate(claim)
                return
            run = CampaignRun(
                claim,
                deadline=deadline,
                database=self._database,
                settings=self._settings,
                stopping=stopping,
            )
            self._settle(claim, run)
        except LeaseLost as error:
            logger.warning("%s", error)
        except DATABASE_AWAY as error:
            logger.error("campaign %s waits for its lease to expire: %s", claim.job.id, error)
        except Exception as error:
            logger.exception("campaign %s", claim.job.id)
            message = f"internal error: {type(error).__name__}: {error}"
            self._fail(claim, JobError(code="internal_error", message=message))

    def _validate(self, claim: Claim) -> None:
        """Check what the gateway cannot: the benchmark's rows, and this worker's capabilities."""
        request = CreateCampaign.model_validate(claim.job.request)
        artifacts = Artifacts(self._settings.home)
        error = None
        try:
            check_scripts(request, self._settings, artifacts)
            divide(read_items(artifacts.file(request.file), request), request)
        except TemperError as problem:
            code, message, param = InvalidRequest.code, problem.message, problem.param
            error = JobError(code=code, message=message, param=param)
        except OSError as problem:
            error = JobError(code=InvalidRequest.code, message=str(problem), param="file")
        with self._database.write() as session:
            job = check_claim(session, claim)
            if error is not None:
                fail_job(session, job, error)
                return
            paused = job.pause_requested_at is not None
            to = JobStatus.PAUSED if paused else JobStatus.QUEUED
            if job.cancel_requested_at is not None:
                to = JobStatus.CANCELLED
            move_job(session, job, to, "The benchmark is valid", phase=None, losses=0)
            if to is JobStatus.QUEUED:
                add_wake_up(session, job.queue)

    def _settle(self, claim: Claim, run: CampaignRun) -> None:
        try:
            result = advance(run)
        except Waiting as waiting:
            self._release(claim, run, waiting.reason, waiting.jobs)
        except GatewayAway as away:
            self._release(claim, run, f"waiting for the gateway: {away.message}", ())
        except Interrupted as interrupted:
            self._interrupt(claim, interrupted.cause)
        except (LeaseLost, *DATABASE_AWAY):
            raise
        except TemperError as error:
            self._fail(claim, JobError(code=error.code, message=error.message, param=error.param))
        else:
            with self._database.write() as session:
                job = check_claim(session, claim)
                kept = result.model_dump(mode="json")
                message = f"Ended by its {result.ended_by}; the best model is {result.best_model}"
                move_job(session, job, JobStatus.SUCCEEDED, message, result=kept, phase=None)
                cancel_orphans(session)

    def _release(self, claim: Claim, run: CampaignRun, reason: str, jobs: Collection[str]) -> None:
        with self._database.write() as session:
            job = check_claim(session, claim)
            if job.cancel_requested_at is not None:
                move_job(session, job, JobStatus.CANCELLED, "Cancelled")
            elif job.pause_requested_at is not None:
                move_job(session, job, JobStatus.PAUSED, "Paused", phase=None)
            else:
                release(
                    session,
                    job,
                    reason,
                    jobs,
                    run.budget.seconds_left,
                    has_begun=run.has_begun,
                )

    def _interrupt(self, claim: Claim, cause: Cause) -> None:
        with self._database.write() as session:
            job = check_claim(session, claim)
            match cause:
                case Cause.CANCELLED:
                    move_job(session, job, JobStatus.CANCELLED, "Cancelled")
                case Cause.PAUSED:
                    move_job(session, job, JobStatus.PAUSED, "Paused", phase=None)
                case Cause.OVERDUE:
                    fail_job(session, job, deadline_error(job))
                case Cause.STOPPING:
                    move_job(session, job, JobStatus.QUEUED, "The worker is shutting down")
                    add_wake_up(session, job.queue)

    def _fail(self, claim: Claim, error: JobError) -> None:
        try:
            with self._database.write() as session:
                fail_job(session, check_claim(session, claim), error)
        except (LeaseLost, *DATABASE_AWAY) as lost:
            logger.warning("campaign %s keeps its lease: %s", claim.job.id, lost)


FALLBACK_SECONDS = 60.0
"""Maximum time until a waiting campaign checks again, whatever it waits for."""


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
