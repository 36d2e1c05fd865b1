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
from services.core.jobs.broker import WAKE_UP, create_celery_app
from services.core.jobs.claims import Claim, Claimant, Stage, claim_validation, claim_work
from services.core.jobs.devices import HostDevices, free_devices, occupied_gpus, visible_gpus
from services.core.jobs.job import LeaseLost
from services.core.jobs.queues import QueueNames, add_wake_up
from services.core.jobs.workers import heartbeat, remove_worker
from services.core.logging import configure_logging
from services.core.process.supervised import lease_clock
from services.core.worker.handler import Handler, ServedKind
from services.core.worker.run import ClaimRun
from services.core.worker.settings import WorkerSettings

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0
CLAIM_TRIES = 5
"""After so many lost races the other workers take what waits, and the dispatcher wakes us."""


class Executor:
    """Brings jobs forward; used by many threads of a worker at once.

    All kinds share the devices of the host and the slots for validation.
    """

    def __init__(
        self,
        database: Database,
        kinds: Sequence[ServedKind],
        settings: WorkerSettings,
    ) -> None:
        host = settings.host_name or socket.gethostname()
        self.database = database
        self.queues = [name for kind in kinds for name in kind.queues.both]
        self.devices = HostDevices(host, visible_gpus(), settings.cpu_slots)
        # Containers that share a host name often share the number of their process too.
        self.worker_id = f"{host}:{secrets.token_hex(3)}:{os.getpid()}"
        self.stopping = threading.Event()
        self._kinds = kinds
        self._settings = settings
        self._artifacts = Artifacts(settings.home)
        self._claimant = Claimant(self.worker_id, self.devices, settings.lease_seconds)
        self._validation_slots = threading.BoundedSemaphore(settings.validation_slots)
        self._more_to_validate = threading.Event()

    def work(self, queue: str) -> None:
        """Run everything that waits in ``queue`` and can run here now."""
        for kind in self._kinds:
            if queue == kind.queues.validation:
                self._validate()
            elif queue == kind.queues.work:
                self._work_off(kind, self._claim_work)

    def _validate(self) -> None:
        """Validate what waits while a slot is free, so that threads stay for the work.

        Who finds no slot leaves word for those who hold one: they look again before they end.
        """
        self._more_to_validate.set()
        while self._more_to_validate.is_set() and self._validation_slots.acquire(blocking=False):
            self._more_to_validate.clear()
            try:
                for kind in self._kinds:
                    self._work_off(kind, self._claim_validation)
            finally:
                self._validation_slots.release()

    def _work_off(self, kind: ServedKind, claim_next: Callable[[QueueNames], Claim | None]) -> None:
        while not self.stopping.is_set():
            asked = lease_clock()  # before the database's lease begins, however long that takes
            claim = self._try(lambda: claim_next(kind.queues))
            if claim is None:
                return
            logger.info("%s of job %s, epoch %d", claim.stage, claim.job.id, claim.job.epoch)
            ClaimRun(
                claim,
                deadline=asked + self._settings.lease_seconds,
                database=self.database,
                handler=kind.handler,
                settings=self._settings,
                job_dir=self._folder(claim),
                stopping=self.stopping,
            ).run()

    def _try(self, claim_next: Callable[[], Claim | None]) -> Claim | None:
        """Claim, looking again when another worker was faster; None when nothing can run here."""
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
        """Each stage has a folder of its own, with its own reports and result."""
        folder = self._artifacts.job(claim.job.id)
        return folder / claim.stage if claim.stage is Stage.VALIDATION else folder

    def _claim_validation(self, queues: QueueNames) -> Claim | None:
        with self.database.write() as session:
            return claim_validation(session, queues.validation, self._claimant)

    def _claim_work(self, queues: QueueNames) -> Claim | None:
        with self.database.read() as session:
            unleased = free_devices(session, self.devices.gpus)
        # Memory in use on a card that no job of ours holds belongs to somebody else.
        occupied = occupied_gpus(unleased)
        with self.database.write() as session:
            return claim_work(session, queues.work, self._claimant, occupied)


def run_worker(handler: Handler, queues: QueueNames, settings: WorkerSettings) -> None:
    """Serve one kind of job until a signal ends the process, as `serve_kinds` does."""
    serve_kinds([ServedKind(handler, queues)], settings)


def serve_kinds(kinds: Sequence[ServedKind], settings: WorkerSettings) -> None:
    """Serve several kinds of job, which share this host's devices, until a signal ends the process.

    On TERM or INT running children are asked to end, and their jobs go back to the queue.
    """
    os.umask(0o077)  # data sets, adapters and logs are the operator's alone
    configure_logging(settings.log_level, settings.log_json)
    database = Database(settings.database)
    migrate(database)
    executor = Executor(database, kinds, settings)
    app = create_celery_app(settings)
    app.task(name=WAKE_UP)(executor.work)
    _follow_life(executor)
    try:
        app.worker_main(_arguments(app, executor, settings))
    finally:
        executor.stopping.set()
        _sign_off(executor)
        database.close()


def _arguments(app: Celery, executor: Executor, settings: WorkerSettings) -> list[str]:
    queues = executor.queues
    # A thread only waits for its child, so there may be as many as jobs can run here at once.
    devices = executor.devices
    threads = len(devices.gpus) + devices.cpu_slots + settings.validation_slots + 1
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


def _follow_life(executor: Executor) -> None:
    """Announce the worker while it lives, and tell its jobs when it is asked to end."""

    def ready(**_: object) -> None:
        threading.Thread(target=_announce, args=(executor,), daemon=True).start()

    def shutting_down(**_: object) -> None:
        executor.stopping.set()

    worker_ready.connect(ready, weak=False)
    worker_shutting_down.connect(shutting_down, weak=False)


def _announce(executor: Executor) -> None:
    news = executor.queues  # what waited for a worker need not wait longer
    while not executor.stopping.is_set():
        try:
            with executor.database.write() as session:
                heartbeat(session, executor.worker_id, executor.queues, executor.devices)
                for queue in news:
                    add_wake_up(session, queue)
            news = []
        except DATABASE_AWAY:
            logger.exception("heartbeat failed; the next one tells when the database is back")
        executor.stopping.wait(HEARTBEAT_SECONDS)


def _sign_off(executor: Executor) -> None:
    try:
        with executor.database.write() as session:
            remove_worker(session, executor.worker_id)
    except DATABASE_AWAY as error:
        logger.warning("could not sign off, silence will tell: %s", error)


logger = logging.getLogger(__name__)
