"""The life of a worker process: Celery brings wake-ups, threads run the jobs."""

import logging
import os
import threading
from collections.abc import Sequence

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from services.core.db.engine import DATABASE_AWAY, Database
from services.core.db.migrate import migrate
from services.core.jobs.broker import WAKE_UP, create_queue
from services.core.jobs.outbox import add_wake_up
from services.core.jobs.queue_names import QueueNames
from services.core.jobs.workers import heartbeat, sign_off
from services.core.logging import configure_logging
from services.core.worker.executor import Executor
from services.core.worker.handler import Handler, ServedKind
from services.core.worker.settings import WorkerSettings

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0


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
    app = create_queue(settings)
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
            sign_off(session, executor.worker_id)
    except DATABASE_AWAY as error:
        logger.warning("could not sign off, silence will tell: %s", error)
