"""The worker process: claims campaigns that can take a step, and runs it."""

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from celery.signals import worker_ready, worker_shutting_down

from services.campaigns.claims import claim_step, next_due, release
from services.campaigns.data.benchmark import divide, read_items
from services.campaigns.gateway import GatewayAway
from services.campaigns.loop import advance
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import Cause, Interrupted, Waiting
from services.campaigns.scripts.offer import check_scripts
from services.campaigns.scripts.proxy import serving_proxy
from services.campaigns.settings import CampaignSettings
from services.contracts.campaigns.campaigns import CreateCampaign
from services.contracts.errors import InvalidRequest, TemperError
from services.contracts.jobs import JobError, JobStatus
from services.core.artifacts import Artifacts
from services.core.db.changes import Changes
from services.core.db.engine import DATABASE_AWAY, Database
from services.core.db.migrate import migrate
from services.core.logging import configure_logging
from services.core.process.supervised import lease_clock
from services.core.settings import make_private
from services.jobs.broker import WAKE_UP, create_celery_app, ring_workers
from services.jobs.campaign_steps import cancel_orphans
from services.jobs.claims import Claim, Claimant, check_claim, claim_validation
from services.jobs.deadline import deadline_error
from services.jobs.devices import HostDevices
from services.jobs.job import LeaseLost
from services.jobs.queues import CAMPAIGN
from services.jobs.store import fail_job, move_job
from services.jobs.worker.heartbeat import touch_heartbeat
from services.jobs.workers import heartbeat, remove_worker

logger = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
"""How often it looks for a campaign that is due and that it has not claimed."""
HEARTBEAT_SECONDS = 5.0


class CampaignWorker:
    """Runs the steps of campaigns in a few threads; holds no device."""

    def __init__(self, database: Database, settings: CampaignSettings) -> None:
        host = settings.host_name or socket.gethostname()
        self._database = database
        self._settings = settings
        self._devices = HostDevices(host, (), 0, ())
        self._id = f"{host}:{secrets.token_hex(3)}:{os.getpid()}"
        self._claimant = Claimant(self._id, self._devices, settings.lease_seconds)
        self._changes = Changes(database)
        self._due: float | None = 0.0
        self.stopping = threading.Event()

    def wake(self, queue: str) -> None:  # noqa: ARG002 - every wake-up means: look
        """Check for work immediately."""
        self._changes.interrupt()

    def stop(self) -> None:
        """Have `serve` return once its steps have stopped."""
        self.stopping.set()
        self._changes.interrupt()

    def serve(self) -> None:
        """Run steps until `stop` is called."""
        slots = threading.BoundedSemaphore(self._settings.campaign_slots)
        beat, look = 0.0, True

        def leave_slot(_: object) -> None:
            slots.release()
            self._changes.interrupt()

        with ThreadPoolExecutor(self._settings.campaign_slots) as threads:
            while not self.stopping.is_set():
                try:
                    if lease_clock() - beat >= HEARTBEAT_SECONDS:
                        beat, look = lease_clock(), True
                        self._beat()
                    while look and not self.stopping.is_set() and slots.acquire(blocking=False):
                        before = lease_clock()
                        claim = self._claim()
                        if claim is None:
                            slots.release()
                            break
                        done = threads.submit(self._take_step, claim, before)
                        done.add_done_callback(leave_slot)
                except DATABASE_AWAY as error:
                    logger.warning("the database is away: %s", error)
                    self._due = 0.0
                rest = beat + HEARTBEAT_SECONDS - lease_clock()
                if self._due is not None:
                    rest = min(rest, max(RETRY_SECONDS, self._due - time.time()))
                heard = self._changes.wait(rest)
                look = heard or (self._due is not None and time.time() >= self._due)
        self._changes.close()

    def leave(self) -> None:
        """Deregister."""
        try:
            with self._database.write() as session:
                remove_worker(session, self._id)
        except DATABASE_AWAY as error:
            logger.warning("could not deregister; the heartbeat will expire: %s", error)

    def _beat(self) -> None:
        with self._database.write() as session:
            heartbeat(session, self._id, list(CAMPAIGN.both), self._devices)
            cancel_orphans(session)
        touch_heartbeat(self._settings.heartbeat_file)

    def _claim(self) -> Claim | None:
        """Validate new campaigns, then claim one that can take a step."""
        with self._database.read() as session:
            self._due = next_due(session)
        if self._due is None:
            return None
        try:
            with self._database.write() as session:
                new = claim_validation(session, [CAMPAIGN.validation], self._claimant)
            if new is not None:
                self._validate(new)
            with self._database.write() as session:
                return claim_step(session, self._claimant)
        except LeaseLost as error:
            logger.debug("claim lost: %s", error)
            return None

    def _validate(self, claim: Claim) -> None:
        """Check what the gateway cannot: the benchmark's rows, and this worker's capabilities."""
        request = CreateCampaign.model_validate(claim.job.request)
        artifacts = Artifacts(self._settings.home)
        error = None
        try:
            check_scripts(request, self._settings, artifacts)
            divide(read_items(artifacts.file(request.file), request), request)
        except TemperError as problem:
            param = problem.param or "file"
            error = JobError(code=InvalidRequest.code, message=problem.message, param=param)
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

    def _take_step(self, claim: Claim, before: float) -> None:
        """Advance a campaign until it must wait, and record its state."""
        try:
            run = CampaignRun(
                claim,
                deadline=before + self._settings.lease_seconds,
                database=self._database,
                settings=self._settings,
                stopping=self.stopping,
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

    def _fail(self, claim: Claim, error: JobError) -> None:
        try:
            with self._database.write() as session:
                fail_job(session, check_claim(session, claim), error)
        except (LeaseLost, *DATABASE_AWAY) as lost:
            logger.warning("campaign %s keeps its lease: %s", claim.job.id, lost)


def serve_campaigns(settings: CampaignSettings) -> None:
    """Serve campaigns until a signal stops the process."""
    make_private(settings.home)
    configure_logging(settings.log_level, settings.log_json)
    database = Database(settings.database)
    migrate(database)
    worker = CampaignWorker(database, settings)
    app = create_celery_app(settings)
    app.task(name=WAKE_UP)(worker.wake)
    serving = threading.Thread(target=worker.serve)

    def ready(**_: object) -> None:
        serving.start()

    def shutting_down(**_: object) -> None:
        worker.stop()
        ring_workers(app)

    worker_ready.connect(ready, weak=False)
    worker_shutting_down.connect(shutting_down, weak=False)
    try:
        with serving_proxy(database, settings):
            app.worker_main(
                [
                    "worker",
                    "--pool=threads",
                    "--concurrency=1",
                    f"--queues={','.join(CAMPAIGN.both)}",
                    f"--hostname=campaigns@{secrets.token_hex(3)}",
                    f"--loglevel={settings.log_level}",
                    "--without-gossip",
                    "--without-mingle",
                    "--without-heartbeat",
                ]
            )
    finally:
        worker.stop()
        if serving.is_alive():
            serving.join()
        worker.leave()
        database.close()
