"""A worker process: Celery delivers wake-ups, threads claim jobs and run them."""

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down
from sqlalchemy.exc import IntegrityError

from services.core.artifacts import Artifacts
from services.core.db.engine import DATABASE_AWAY, Database
from services.core.db.migrate import migrate
from services.core.logging import configure_logging
from services.core.process.supervised import lease_clock
from services.core.settings import make_private
from services.jobs.broker import WAKE_UP, create_celery_app, ring_workers
from services.jobs.claims import Claim, Claimant, ClaimStage, claim_validation, claim_work
from services.jobs.devices import (
    HostDevices,
    free_devices,
    gpu_memory,
    occupied_gpus,
    visible_gpus,
)
from services.jobs.job import LeaseLost
from services.jobs.queues import QueueNames, add_wake_up
from services.jobs.worker.handler import Handler, ServedKind
from services.jobs.worker.heartbeat import touch_heartbeat
from services.jobs.worker.presence import Presence, take_from_dead_workers
from services.jobs.worker.run import ClaimRun
from services.jobs.worker.settings import WorkerSettings
from services.jobs.workers import heartbeat, remove_worker

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
CLAIM_TRIES = 5
"""After so many lost races other workers take the jobs, and the dispatcher wakes this one."""


class Executor:
    """Claims and runs jobs; called by all threads of a worker.

    All kinds share the devices of the host and the validation slots.
    """

    def __init__(
        self,
        database: Database,
        kinds: Sequence[ServedKind],
        settings: WorkerSettings,
    ) -> None:
        host = settings.host_name or socket.gethostname()
        self._artifacts = Artifacts(settings.home)
        self.database = database
        self.queues = [name for kind in kinds for name in kind.queues.both]
        gpus = visible_gpus()
        self.devices = HostDevices(
            host, gpus, settings.cpu_slots, gpu_memory(gpus), settings.remote_slots
        )
        # Containers with the same host name often have the same process id too.
        self.worker_id = f"{host}:{secrets.token_hex(3)}:{os.getpid()}"
        self.workers_folder = self._artifacts.workers()
        self.presence = Presence(self.workers_folder, self.worker_id)
        self.heartbeat_file = settings.heartbeat_file
        self.stopping = threading.Event()
        self._kinds = kinds
        self._handlers = {kind.queues.work: kind.handler for kind in kinds}
        self._settings = settings
        self._claimant = Claimant(self.worker_id, self.devices, settings.lease_seconds)
        self._validation_slots = threading.BoundedSemaphore(settings.validation_slots)
        self._more_to_validate = threading.Event()

    def work(self, queue: str) -> None:
        """Run every job that waits for what ``queue`` is for and can run here now."""
        if any(queue == kind.queues.validation for kind in self._kinds):
            self._validate()
        else:
            self._run_all(self._claim_work)

    def _validate(self) -> None:
        """Validate waiting jobs while a slot is free, so that threads are left for work.

        A thread that finds no free slot sets a flag; slot holders check it again before they
        return.
        """
        self._more_to_validate.set()
        while self._more_to_validate.is_set() and self._validation_slots.acquire(blocking=False):
            self._more_to_validate.clear()
            try:
                self._run_all(self._claim_validation)
            finally:
                self._validation_slots.release()

    def _run_all(self, claim_next: Callable[[], Claim | None]) -> None:
        while not self.stopping.is_set():
            before = lease_clock()  # before the lease in the database begins
            claim = self._try(claim_next)
            if claim is None:
                return
            logger.info("%s of job %s, epoch %d", claim.stage, claim.job.id, claim.job.epoch)
            ClaimRun(
                claim,
                deadline=before + self._settings.lease_seconds,
                database=self.database,
                handler=self._handlers[claim.job.queue],
                settings=self._settings,
                job_dir=self._folder(claim),
                notes=self.presence.notes,
                stopping=self.stopping,
            ).run()

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

    def _folder(self, claim: Claim) -> Path:
        """Each stage has its own folder, with its own reports and result."""
        folder = self._artifacts.job(claim.job.id)
        return folder / claim.stage if claim.stage is ClaimStage.VALIDATION else folder

    def _claim_validation(self) -> Claim | None:
        queues = [kind.queues.validation for kind in self._kinds]
        with self.database.write() as session:
            return claim_validation(session, queues, self._claimant)

    def _claim_work(self) -> Claim | None:
        with self.database.read() as session:
            unleased = free_devices(session, self.devices.gpus)
        # Memory in use on a GPU without a lease belongs to other programs.
        occupied = occupied_gpus(unleased)
        with self.database.write() as session:
            return claim_work(session, list(self._handlers), self._claimant, occupied)


def run_worker(handler: Handler, queues: QueueNames, settings: WorkerSettings) -> None:
    """Serve one kind of job until the process is stopped (see `serve_kinds`)."""
    serve_kinds([ServedKind(handler, queues)], settings)


def serve_kinds(kinds: Sequence[ServedKind], settings: WorkerSettings) -> None:
    """Serve several kinds of job, which share this host's devices, until the process is stopped.

    On TERM or INT running children are stopped and their jobs are requeued.
    """
    make_private(settings.home)
    configure_logging(settings.log_level, settings.log_json)
    database = Database(settings.database)
    migrate(database)
    executor = Executor(database, kinds, settings)
    executor.presence.enter()
    app = create_celery_app(settings)
    app.task(name=WAKE_UP)(executor.work)
    _connect_signals(executor, app)
    try:
        app.worker_main(_arguments(app, executor, settings))
    finally:
        executor.stopping.set()
        _deregister(executor)
        executor.presence.leave()
        database.close()


def _arguments(app: Celery, executor: Executor, settings: WorkerSettings) -> list[str]:
    queues = executor.queues
    # Threads only wait for their children: one for each job that can run here concurrently.
    devices = executor.devices
    slots = devices.cpu_slots + devices.remote_slots + settings.validation_slots
    threads = len(devices.gpus) + slots + 1
    logger.info("%s: %s, devices %s", app.main, ", ".join(queues), devices)
    return [
        "worker",
        "--pool=threads",
        f"--concurrency={threads}",
        f"--queues={','.join(queues)}",
        f"--hostname={queues[-1]}@{executor.worker_id}",
        f"--loglevel={settings.log_level}",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    ]


def _connect_signals(executor: Executor, app: Celery) -> None:
    """Send heartbeats while the worker runs, and stop its jobs when it shuts down."""

    def ready(**_: object) -> None:
        threading.Thread(target=_send_heartbeats, args=(executor,), daemon=True).start()

    def shutting_down(**_: object) -> None:
        executor.stopping.set()
        ring_workers(app)

    worker_ready.connect(ready, weak=False)
    worker_shutting_down.connect(shutting_down, weak=False)


def _send_heartbeats(executor: Executor) -> None:
    to_wake = executor.queues  # jobs may have waited for this worker
    while not executor.stopping.is_set():
        try:
            with executor.database.write() as session:
                heartbeat(session, executor.worker_id, executor.queues, executor.devices)
                for queue in to_wake:
                    add_wake_up(session, queue)
            to_wake = []
            touch_heartbeat(executor.heartbeat_file)
            if taken := take_from_dead_workers(executor.database, executor.workers_folder):
                logger.warning("recovered %d jobs of killed workers of this host", taken)
        except DATABASE_AWAY:
            logger.exception("heartbeat failed; retrying")
        except OSError:
            logger.exception("cannot look for killed workers; their leases will expire")
        executor.stopping.wait(HEARTBEAT_SECONDS)


def _deregister(executor: Executor) -> None:
    try:
        with executor.database.write() as session:
            remove_worker(session, executor.worker_id)
    except DATABASE_AWAY as error:
        logger.warning("could not deregister; the heartbeat will expire: %s", error)
