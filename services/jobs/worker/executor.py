"""Claims jobs when a wake-up arrives, and runs them."""

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy.exc import IntegrityError

from services.core.artifacts import Artifacts
from services.core.db.engine import DATABASE_AWAY, Database
from services.core.process.supervised import lease_clock
from services.jobs.claims import Claim, Claimant, ClaimStage, claim_validation, claim_work
from services.jobs.devices import HostDevices, free_devices
from services.jobs.gpus import gpu_memory, occupied_gpus, visible_gpus
from services.jobs.job import LeaseLost
from services.jobs.queues import QueueNames
from services.jobs.worker.handler import ServedKind
from services.jobs.worker.presence import Presence
from services.jobs.worker.run import ClaimRun
from services.jobs.worker.settings import CommonWorkerSettings, WorkerSettings
from services.jobs.worker.shutdown import Shutdown
from services.jobs.worker.work import Work

logger = logging.getLogger(__name__)

CLAIM_TRIES = 5
"""After so many lost races other workers take the jobs, and the dispatcher wakes this one."""


class Executor:
    """Claims and runs jobs; called by all threads of a worker.

    All kinds share the validation slots.
    """

    def __init__(self, database: Database, work: Work, settings: CommonWorkerSettings) -> None:
        self.database = database
        self.queues = [name for queues in work.queues for name in queues.both]
        self.devices = work.devices
        # Containers with the same host name often have the same process id too.
        self.worker_id = f"{self.devices.host}:{secrets.token_hex(3)}:{os.getpid()}"
        self.workers_folder = Artifacts(settings.home).workers()
        self.presence = Presence(self.workers_folder, self.worker_id)
        self.heartbeat_file = settings.heartbeat_file
        self.stopping = Shutdown()
        self.threads = work.slots + settings.validation_slots
        self._work = work
        self._lease_seconds = settings.lease_seconds
        self._claimant = Claimant(self.worker_id, self.devices, settings.lease_seconds)
        self._validation_queues = [queues.validation for queues in work.queues]
        self._validations = _Slots(settings.validation_slots)  # threads are left for work
        self._slots = _Slots(work.slots)

    def work(self, queue: str) -> None:
        """Run every job that waits for what ``queue`` is for and can run here now."""
        if queue in self._validation_queues:
            self._validations.run(lambda: self._run_all(self._claim_validation))
        else:
            self._slots.run(lambda: self._run_all(self._claim_work))

    def _run_all(self, claim_next: Callable[[], Claim | None]) -> None:
        while not self.stopping.is_set():
            before = lease_clock()  # before the lease in the database begins
            claim = self._try(claim_next)
            if claim is None:
                return
            logger.info("%s of job %s, epoch %d", claim.stage, claim.job.id, claim.job.epoch)
            deadline = before + self._lease_seconds
            self._work.run(claim, deadline, self.stopping, self.presence.notes)

    def _try(self, claim_next: Callable[[], Claim | None]) -> Claim | None:
        """Claim, retrying when another worker was faster; None when nothing can run here."""
        for _ in range(CLAIM_TRIES):
            try:
                return claim_next()
            except (LeaseLost, IntegrityError) as error:
                logger.debug("claim lost: %s", error)
            except DATABASE_AWAY as error:
                logger.warning("cannot claim now: %s", error)
                return None
        return None

    def _claim_validation(self) -> Claim | None:
        with self.database.write() as session:
            return claim_validation(session, self._validation_queues, self._claimant)

    def _claim_work(self) -> Claim | None:
        return self._work.claim(self._claimant)


class _Slots:
    """At most ``number`` threads look for claims and run them; others return immediately.

    A thread that finds no free slot sets a flag; slot holders check it again before they return,
    so that what it was woken for is not missed.
    """

    def __init__(self, number: int) -> None:
        self._slots = threading.BoundedSemaphore(number)
        self._more = threading.Event()

    def run(self, run_all: Callable[[], None]) -> None:
        """Call ``run_all``, which returns once there is nothing to do, while a slot is free."""
        self._more.set()
        while self._more.is_set() and self._slots.acquire(blocking=False):
            self._more.clear()
            try:
                run_all()
            finally:
                self._slots.release()


class ChildWork:
    """Claims jobs with the devices that they need, and runs a child process for each claim."""

    def __init__(
        self, database: Database, kinds: Sequence[ServedKind], settings: WorkerSettings
    ) -> None:
        host = settings.host_name or socket.gethostname()
        gpus = visible_gpus()
        self._devices = HostDevices(
            host, gpus, settings.cpu_slots, gpu_memory(gpus), settings.remote_slots
        )
        self._queues = [kind.queues for kind in kinds]
        self._handlers = {kind.queues.work: kind.handler for kind in kinds}
        self._database = database
        self._settings = settings
        self._artifacts = Artifacts(settings.home)

    @property
    def queues(self) -> Sequence[QueueNames]:
        """The queues of all kinds."""
        return self._queues

    @property
    def devices(self) -> HostDevices:
        """The devices of this host that the worker may use."""
        return self._devices

    @property
    def slots(self) -> int:
        """One for each job that can run here concurrently, and one that looks meanwhile."""
        devices = self._devices
        return len(devices.gpus) + devices.cpu_slots + devices.remote_slots + 1

    def claim(self, claimant: Claimant) -> Claim | None:
        """Claim the next job whose devices are free."""
        with self._database.read() as session:
            unleased = free_devices(session, self._devices.gpus)
        # Memory in use on a GPU without a lease belongs to other programs.
        occupied = occupied_gpus(unleased)
        with self._database.write() as session:
            return claim_work(session, list(self._handlers), claimant, occupied)

    def run(self, claim: Claim, deadline: float, stopping: Shutdown, notes: Path) -> None:
        """Run the child of a claim to its end."""
        ClaimRun(
            claim,
            deadline=deadline,
            database=self._database,
            handler=self._handlers[claim.job.queue],
            settings=self._settings,
            job_dir=self._folder(claim),
            notes=notes,
            stopping=stopping,
        ).run()

    def _folder(self, claim: Claim) -> Path:
        """Each stage has its own folder, with its own reports and result."""
        folder = self._artifacts.job(claim.job.id)
        return folder / claim.stage if claim.stage is ClaimStage.VALIDATION else folder
