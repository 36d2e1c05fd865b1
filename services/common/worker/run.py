"""One claim, from its child's start to its outcome."""

import logging
import signal
import threading
import time
from pathlib import Path

from sqlalchemy.exc import OperationalError

from services.common.contracts.jobs import JobError
from services.common.db.engine import Database
from services.common.errors import TemperError
from services.common.jobs.claims import Claim, Stage, renew_lease
from services.common.jobs.status import LeaseLost
from services.common.jobs.store import get_job
from services.common.process.reporter import Reporter
from services.common.process.runtimes import child_environment
from services.common.process.supervised import SupervisedProcess, kill_tree
from services.common.worker.handler import Handler, Launch
from services.common.worker.outcome import Ending, read_result, settle, settle_failure
from services.common.worker.reports import ReportFollower, bound_log, log_tail
from services.common.worker.settings import WorkerSettings

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.25
CONTROL_SECONDS = 1.0
LOG = "log.txt"


class ClaimRun:
    """Runs the child of one claim and settles the job's state with what came of it."""

    def __init__(
        self,
        claim: Claim,
        *,
        database: Database,
        handler: Handler,
        settings: WorkerSettings,
        job_dir: Path,
        stopping: threading.Event,
    ) -> None:
        self._database = database
        self._handler = handler
        self._settings = settings
        self._claim = claim
        self._dir = job_dir
        self._stopping = stopping
        self._cancelled = False

    def run(self) -> None:
        """Bring the job as far as this claim goes. Raises nothing that concerns the job only."""
        try:
            self._settle(self._run_child())
        except LeaseLost as error:
            logger.warning("%s", error)
        except OperationalError as error:
            # The lease runs out, and whoever takes over finds the child's result or checkpoint.
            logger.error(
                "the database left job %s to another attempt: %s", self._claim.job.id, error
            )
        except TemperError as error:
            self._fail(JobError(code=error.code, message=error.message, param=error.param))
        except Exception as error:
            # A fault of ours must end the job with a trace in the log, not leave it running.
            logger.exception("job %s", self._claim.job.id)
            message = f"internal error: {type(error).__name__}: {error}"
            self._fail(JobError(code="internal_error", message=message))

    def _run_child(self) -> int:
        """Start the child, follow it, and return its exit code once its tree is gone.

        A result that lies there already is the work of a child whose worker was lost before it
        could be recorded. Without files to validate there is nothing to start.
        """
        job = self._claim.job
        self._dir.mkdir(parents=True, exist_ok=True)
        kill_tree(job.id)  # left by a worker that was killed together with its watchdog
        follower = ReportFollower(self._database, self._claim, self._dir)
        if read_result(self._dir) is not None:
            follower.follow_to_end()
            return 0
        launch = self._launch()
        if launch is None:
            Reporter(self._dir).finish()
            return 0
        environment = child_environment(launch.environment)
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(self._claim.gpus)
        process = SupervisedProcess.start(
            launch.command,
            cwd=self._dir,
            env=environment,
            log=self._dir / LOG,
            tree=job.id,
            lease_seconds=self._settings.lease_seconds,
            grace_seconds=self._settings.grace_seconds,
        )
        try:
            self._watch(process, follower)
        finally:
            process.end()
            while not process.wait(1.0):
                pass
        follower.follow_to_end()
        return process.returncode if process.returncode is not None else -signal.SIGKILL

    def _launch(self) -> Launch | None:
        if self._claim.stage is Stage.VALIDATION:
            return self._handler.validation(self._database, self._claim.job, self._dir)
        return self._handler.work(self._database, self._claim, self._dir)

    def _watch(self, process: SupervisedProcess, follower: ReportFollower) -> None:
        """Follow the child until it ends, and end it when it must end.

        While the database is away the child goes on; the watchdog ends it when the lease that
        could not be renewed runs out.
        """
        renewed = checked = time.monotonic()
        while not process.wait(POLL_SECONDS):
            now = time.monotonic()
            try:
                follower.follow()
                if now - renewed >= self._settings.lease_seconds / 4:
                    self._renew(process)
                    renewed = now
                if now - checked >= CONTROL_SECONDS:
                    checked = now
                    self._cancelled = self._cancelled or self._cancel_requested()
                    bound_log(self._dir / LOG)
            except OperationalError as error:
                logger.warning("job %s: the database is away: %s", self._claim.job.id, error)
            if self._cancelled or self._stopping.is_set():
                process.end()

    def _renew(self, process: SupervisedProcess) -> None:
        with self._database.write() as session:
            renew_lease(session, self._claim, self._settings.lease_seconds)
        process.renew(self._settings.lease_seconds)

    def _cancel_requested(self) -> bool:
        with self._database.read() as session:
            return get_job(session, self._claim.job.id).cancel_requested_at is not None

    def _settle(self, returncode: int) -> None:
        ending = Ending(
            returncode=returncode,
            result=read_result(self._dir),
            cancelled=self._cancelled,
            stopping=self._stopping.is_set(),
            log_tail=log_tail(self._dir / LOG),
        )
        with self._database.write() as session:
            settle(session, self._claim, self._handler, ending)

    def _fail(self, error: JobError) -> None:
        try:
            with self._database.write() as session:
                settle_failure(session, self._claim, error)
        except LeaseLost as lost:
            logger.warning("%s", lost)
