"""One claim, from its child's start to its outcome."""

import errno
import logging
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from services.contracts.errors import TemperError
from services.contracts.jobs import JobError
from services.core.db.engine import DATABASE_AWAY, Database
from services.core.process.reporter import (
    RESULT,
    Reporter,
    request_pause_of,
    tell_that_others_wait,
    withdraw_pause,
)
from services.core.process.runtimes import child_environment
from services.core.process.startup.sitecustomize import STACKS_FILE
from services.core.process.supervised import (
    SupervisedProcess,
    kill_earlier_trees,
    lease_clock,
    tree_name,
)
from services.core.processors import usable_cores
from services.jobs.claims import Claim, ClaimStage, check_claim, renew_lease
from services.jobs.contention import has_waiters
from services.jobs.job import Job, LeaseLost, is_overdue
from services.jobs.tracking.selection import select_trackers
from services.jobs.worker.handler import Handler, Launch
from services.jobs.worker.outcome import (
    ChildExit,
    read_result,
    run_end,
    settle,
    settle_failure,
    succeeded,
)
from services.jobs.worker.reports import ReportFollower, bound_log, log_tail
from services.jobs.worker.settings import WorkerSettings
from services.jobs.worker.shutdown import Shutdown
from services.jobs.worker.stalls import LOG, STACKS, ProgressWatch, Stall, StallLimits, look_into
from services.jobs.worker.trackers import JobTrackers
from services.jobs.worker.utilization import UtilizationLog, job_memory

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.25
CONTROL_SECONDS = 1.0


class ClaimRun:
    """Runs the child of one claim and updates the job with its outcome.

    ``deadline`` is the end of the claim's lease on the `lease_clock`; ``notes`` is the worker's
    folder with a note per running process tree.
    """

    def __init__(
        self,
        claim: Claim,
        *,
        deadline: float,
        database: Database,
        handler: Handler,
        settings: WorkerSettings,
        job_dir: Path,
        notes: Path,
        stopping: Shutdown,
    ) -> None:
        self._database = database
        self._handler = handler
        self._settings = settings
        self._claim = claim
        self._lease = Lease(database, claim, settings.lease_seconds, deadline)
        limits = StallLimits(settings.stall_seconds, settings.stall_max_seconds)
        tree = tree_name(claim.job.id, claim.job.epoch)
        is_validation = claim.stage is ClaimStage.VALIDATION
        self._progress = ProgressWatch(
            job_dir, limits, reading_tree=tree if is_validation else None, gpus=claim.gpus
        )
        self._follower = ReportFollower(database, claim, job_dir, self._progress.note)
        self._notes = notes
        self._trackers = JobTrackers(job_dir, tree, notes)
        self._dir = job_dir
        self._stopping = stopping
        self._cancelled = False
        self._pausing_since: float | None = None
        self._paused = False
        self._overdue = False
        self._stall: Stall | None = None

    def run(self) -> None:
        """Run the claim to completion. Errors of this job are recorded, not raised."""
        try:
            self._settle(self._run_child())
        except LeaseLost as error:
            logger.warning("%s", error)
        except DATABASE_AWAY as error:
            # The lease expires, and the next worker finds the child's result or checkpoint.
            logger.error(
                "job %s is left to another attempt, the database is down: %s",
                self._claim.job.id,
                error,
            )
        except TemperError as error:
            self._fail(JobError(code=error.code, message=error.message, param=error.param))
        except Exception as error:
            # A bug must fail the job with a trace in the log, not leave it running.
            logger.exception("job %s", self._claim.job.id)
            message, code = f"internal error: {type(error).__name__}: {error}", "internal_error"
            if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
                message, code = f"the disk is full: {error}", "storage_full"
            self._fail(JobError(code=code, message=message))
        finally:
            self._trackers.stop()

    def _run_child(self) -> ChildExit:
        """Start the child, follow it, and return how it ended once its tree is gone.

        A successful result found at the start was left by a child whose worker was lost before it
        could record it. A failure found may be due to that loss and is ignored. Nothing is started
        when there are no files to validate.
        """
        job = self._claim.job
        self._dir.mkdir(parents=True, exist_ok=True)
        kill_earlier_trees(job.id, job.epoch)  # their worker was killed with its watchdog
        if succeeded(read_result(self._dir)):
            self._start_trackers()
            return self._exit(0)
        (self._dir / RESULT).unlink(missing_ok=True)
        withdraw_pause(self._dir)
        tell_that_others_wait(self._dir, False)
        launch = self._launch()
        if launch is None:
            Reporter(self._dir).finish()
            return self._exit(0)
        process = self._start(launch)
        try:
            self._start_trackers()
            self._watch(process, launch)
        finally:
            process.end()
            while not process.wait(1.0):
                pass  # devices are free once the last process is gone
        code = process.returncode if process.returncode is not None else -signal.SIGKILL
        return self._exit(code, process)

    def _start(self, launch: Launch) -> SupervisedProcess:
        job = self._claim.job
        environment = child_environment(launch.environment)
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(self._claim.gpus)
        environment[STACKS_FILE] = str(self._dir / STACKS)
        if self._claim.cpu_slots and self._settings.cpu_slots > 1:
            # Alone it would compute on all cores, and so would the jobs in the other slots.
            cores = max(1, usable_cores() // self._settings.cpu_slots)
            environment.setdefault("OMP_NUM_THREADS", str(cores))
        return SupervisedProcess.start(
            launch.command,
            cwd=self._dir,
            env=environment,
            log=self._dir / LOG,
            tree=tree_name(job.id, job.epoch),
            deadline=self._lease.deadline,
            grace_seconds=self._settings.grace_seconds,
            memory_bytes=self._memory_bytes(),
            tree_memory_bytes=job_memory(self._settings.job_memory_gib),
            notes=self._notes,
        )

    def _start_trackers(self) -> None:
        """Start the trackers of the work; a validation has none."""
        if self._claim.stage is ClaimStage.WORK:
            settings = self._settings
            selection = select_trackers(
                self._claim.job,
                settings.trackers,
                job_dir=self._dir,
                home=settings.home,
                runtimes=settings.runtimes_folder,
            )
            self._trackers.start(selection, self._lease.deadline)

    def _exit(self, returncode: int, process: SupervisedProcess | None = None) -> ChildExit:
        return ChildExit(
            returncode=returncode,
            result=read_result(self._dir),
            cancelled=self._cancelled,
            paused=self._paused,
            overdue=self._overdue,
            stopping=self._stopping.is_set(),
            expired=process is not None and process.expired,
            stall=self._stall,
            log_tail=log_tail(self._dir / LOG),
            unsupervised=process is not None and process.unsupervised,
            exhausted=process.exhausted if process else None,
            disk_full=_is_full(self._dir),
        )

    def _memory_bytes(self) -> int | None:
        """Files are untrusted: validating one must not take the memory of the host."""
        is_validation = self._claim.stage is ClaimStage.VALIDATION
        return int(self._settings.validation_memory_gib * 2**30) if is_validation else None

    def _launch(self) -> Launch | None:
        if self._claim.stage is ClaimStage.VALIDATION:
            return self._handler.validation(self._database, self._claim.job, self._dir)
        return self._handler.work(self._database, self._claim, self._dir)

    def _watch(self, process: SupervisedProcess, launch: Launch) -> None:
        """Follow the child until it ends; stop it on cancellation, pause, deadline and shutdown, of
        which the last three first leave it time to save.

        While the database is down the child keeps running; the watchdog stops it when the lease,
        which cannot be renewed, expires.
        """
        checked = time.monotonic()
        pause = POLL_SECONDS
        utilization = self._utilization()
        while not process.wait(pause):
            try:
                if self._renew_lease():
                    process.renew(self._lease.deadline)
                self._follower.follow()
                if time.monotonic() - checked >= CONTROL_SECONDS:
                    checked = time.monotonic()
                    job, self._overdue = self._lease.check()
                    self._cancelled = self._cancelled or job.cancel_requested_at is not None
                    if job.pause_requested_at is not None or self._overdue:
                        self._pause(launch)
                    if launch.yields:
                        self._signal_waiting_jobs()
                    if not launch.idles:
                        self._look_for_stall()
                    bound_log(self._dir / LOG)
                    if utilization is not None:
                        utilization.sample_if_due()
                    self._trackers.check()
                    self._record_tracker_warnings()
                pause = POLL_SECONDS
            except DATABASE_AWAY as error:
                logger.warning("job %s: the database is down: %s", self._claim.job.id, error)
                pause = CONTROL_SECONDS
            late = self._overdue and self._claim.stage is ClaimStage.VALIDATION
            hangs = self._stall is not None
            if self._cancelled or self._paused or late or hangs or self._must_stop(launch):
                process.end()

    def _utilization(self) -> UtilizationLog | None:
        """The log of what the work uses; a validation holds no device."""
        if self._claim.stage is ClaimStage.VALIDATION:
            return None
        tree = tree_name(self._claim.job.id, self._claim.job.epoch)
        return UtilizationLog(self._dir, tree, self._claim.gpus)

    def _look_for_stall(self) -> None:
        """Record where the child hangs, once it has made no progress for too long."""
        silence = None if self._stall else self._progress.silent_for()
        if silence is not None:
            tree = tree_name(self._claim.job.id, self._claim.job.epoch)
            bound, gpus = self._progress.bound, self._claim.gpus
            self._stall = look_into(tree, self._dir, silence, bound, gpus)
            logger.warning("job %s: %s", self._claim.job.id, self._stall.message)

    def _pause(self, launch: Launch) -> None:
        """Ask the child for a checkpoint; have it stopped when it writes none. A validation
        continues, because it holds no device."""
        if self._claim.stage is ClaimStage.VALIDATION:
            return
        now = time.monotonic()
        if self._pausing_since is None:
            self._pausing_since = now
            if launch.saves_on_pause:
                request_pause_of(self._dir)
        waited = now - self._pausing_since
        self._paused = not launch.saves_on_pause or waited >= self._settings.pause_seconds

    def _must_stop(self, launch: Launch) -> bool:
        """Whether the worker shuts down, and the child cannot save or had its time to. One that can
        is asked for a checkpoint, even while the database is down."""
        if not self._stopping.is_set():
            return False
        if not launch.saves_on_pause:
            return True
        try:
            request_pause_of(self._dir)
        except OSError:  # a full disk, on which it could not save either
            return True
        return self._stopping.is_over(self._settings.grace_seconds)

    def _signal_waiting_jobs(self) -> None:
        """Tell the child whether other jobs wait for its devices."""
        with self._database.read() as session:
            waiting = has_waiters(session, self._claim)
        tell_that_others_wait(self._dir, waiting)

    def _renew_lease(self) -> bool:
        """Renew the lease, also of the trackers, if it is due; true when it was extended."""
        renewed = self._lease.renew_if_due()
        if renewed:
            self._trackers.renew(self._lease.deadline)
        return renewed

    def _settle(self, child_exit: ChildExit) -> None:
        retry_seconds = self._settings.retry_seconds

        def follow() -> None:
            while self._follower.follow():
                self._lease.renew_if_due()

        def record() -> None:
            with self._database.write() as session:
                settle(session, self._claim, self._handler, child_exit, retry_seconds)

        self._retry(follow)
        end = run_end(child_exit)
        if end is not None and not self._stopping.is_set():
            self._trackers.finish(end, self._settings.tracker_seconds, self._renew_lease)
            self._retry(self._record_tracker_warnings)
        self._retry(record)

    def _record_tracker_warnings(self) -> None:
        self._trackers.record_warnings(self._database, self._claim)

    def _retry(self, step: Callable[[], None]) -> None:
        """Run a step; while the database is down, retry until the lease expires."""
        while True:
            try:
                return step()
            except DATABASE_AWAY as error:
                if self._lease.expired:
                    raise
                logger.warning("job %s: the database is down: %s", self._claim.job.id, error)
                time.sleep(CONTROL_SECONDS)

    def _fail(self, error: JobError) -> None:
        def record() -> None:
            with self._database.write() as session:
                settle_failure(session, self._claim, error)

        try:
            self._retry(record)
        except (LeaseLost, *DATABASE_AWAY) as lost:
            logger.warning("job %s keeps its lease: %s", self._claim.job.id, lost)


MIN_FREE_BYTES = 64 << 10
"""With less, a process could not even write its result."""


def _is_full(folder: Path) -> bool:
    return shutil.disk_usage(folder).free < MIN_FREE_BYTES


RENEW_SHARE = 0.25
"""A lease is renewed after this fraction of it: three renewals in a row may fail."""


class Lease:
    """Keeps a claim alive. ``deadline`` is on the `lease_clock`, never later than the database's.

    The deadline is computed before the transaction that sets the database's: however long that
    takes, the watchdog stops the work before another worker may start it.
    """

    def __init__(self, database: Database, claim: Claim, seconds: float, deadline: float) -> None:
        self.deadline = deadline
        self._database = database
        self._claim = claim
        self._seconds = seconds

    @property
    def expired(self) -> bool:
        """Whether another worker may have taken the job."""
        return lease_clock() >= self.deadline

    def renew_if_due(self) -> bool:
        """Extend the lease when `RENEW_SHARE` of it has passed; true when it was extended.

        Raises `LeaseLost` when the job was taken.
        """
        requested_at = lease_clock()
        if self.deadline - requested_at > self._seconds * (1 - RENEW_SHARE):
            return False
        with self._database.write() as session:
            renew_lease(session, self._claim, self._seconds)
        self.deadline = requested_at + self._seconds
        return True

    def check(self) -> tuple[Job, bool]:
        """Return the job, and whether its deadline has passed; raise `LeaseLost` when another
        worker has taken it."""
        with self._database.read() as session:
            job = check_claim(session, self._claim, lock=False)
            return job, is_overdue(session, job)
