"""The work of one wake-up: claim what is waiting, run it, look again."""

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from sqlalchemy.exc import IntegrityError

from services.common.artifacts import Artifacts
from services.common.db.engine import Database
from services.common.gpu.inventory import HostDevices, occupied_gpus, visible_gpus
from services.common.gpu.leases import free_devices
from services.common.jobs.claims import (
    Claim,
    Claimant,
    Stage,
    claim_validation,
    claim_work,
)
from services.common.jobs.status import LeaseLost
from services.common.queue.names import QueueNames
from services.common.worker.handler import Handler
from services.common.worker.run import ClaimRun
from services.common.worker.settings import WorkerSettings

logger = logging.getLogger(__name__)

CLAIM_TRIES = 5
"""After so many lost races the other workers have plenty to do, and the dispatcher wakes us."""


class Executor:
    """Brings jobs of one kind forward; used by many threads of a worker at once."""

    def __init__(
        self,
        database: Database,
        handler: Handler,
        settings: WorkerSettings,
        queues: QueueNames,
    ) -> None:
        host = settings.host_name or socket.gethostname()
        self.database = database
        self.queues = queues
        self.devices = HostDevices(host, visible_gpus(), settings.cpu_slots)
        self.worker_id = f"{host}:{os.getpid()}"
        self.stopping = threading.Event()
        self._handler = handler
        self._settings = settings
        self._artifacts = Artifacts(settings.home)
        self._claimant = Claimant(self.worker_id, self.devices, settings.lease_seconds)
        self._sources: Mapping[str, Callable[[], Claim | None]] = {
            queues.validation: self._claim_validation,
            queues.work: self._claim_work,
        }

    def work(self, queue: str) -> None:
        """Run everything that waits in ``queue`` and can run here now."""
        claim_next = self._sources[queue]
        while not self.stopping.is_set():
            claim = self._try(claim_next)
            if claim is None:
                return
            logger.info("%s of job %s, epoch %d", claim.stage, claim.job.id, claim.job.epoch)
            ClaimRun(
                claim,
                database=self.database,
                handler=self._handler,
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
        return None

    def _folder(self, claim: Claim) -> Path:
        """Each stage has a folder of its own, with its own reports and result."""
        folder = self._artifacts.job(claim.job.id)
        return folder / claim.stage if claim.stage is Stage.VALIDATION else folder

    def _claim_validation(self) -> Claim | None:
        with self.database.write() as session:
            return claim_validation(session, self.queues.validation, self._claimant)

    def _claim_work(self) -> Claim | None:
        with self.database.read() as session:
            unleased = free_devices(session, self.devices.gpus)
        # Memory in use on a card that no job of ours holds belongs to somebody else.
        occupied = occupied_gpus(unleased)
        with self.database.write() as session:
            return claim_work(session, self.queues.work, self._claimant, occupied)
