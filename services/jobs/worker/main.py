"""A worker process: Celery delivers wake-ups to its threads, which claim jobs and run them."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from celery import Celery
from celery.signals import worker_ready, worker_shutting_down

from services.core.db.engine import DATABASE_AWAY, Database
from services.core.db.migrate import migrate
from services.core.logging import configure_logging
from services.core.settings import make_private
from services.jobs.broker import WAKE_UP, consume, create_celery_app, end_waits
from services.jobs.queues import QueueNames, add_wake_up
from services.jobs.worker.executor import ChildWork, Executor
from services.jobs.worker.handler import Handler, ServedKind
from services.jobs.worker.heartbeat import touch_heartbeat
from services.jobs.worker.presence import take_from_dead_workers
from services.jobs.worker.settings import CommonWorkerSettings, WorkerSettings
from services.jobs.worker.work import Work
from services.jobs.workers import heartbeat, remove_worker

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS = 5.0


def run_worker(handler: Handler, queues: QueueNames, settings: WorkerSettings) -> None:
    """Serve one kind of job until the process is stopped (see `serve_kinds`)."""
    serve_kinds([ServedKind(handler, queues)], settings)


def serve_kinds(kinds: Sequence[ServedKind], settings: WorkerSettings) -> None:
    """Serve several kinds of job, which share this host's devices, until the process is stopped.

    On TERM or INT running children save what they can and are stopped; their jobs are requeued.
    """
    serve(lambda database: nullcontext(ChildWork(database, kinds, settings)), settings)


def serve(
    open_work: Callable[[Database], AbstractContextManager[Work]], settings: CommonWorkerSettings
) -> None:
    """Do the work that ``open_work`` makes until the process is stopped; then close it."""
    make_private(settings.home)
    configure_logging(settings.log_level, settings.log_json)
    database = Database(settings.database)
    migrate(database)
    try:
        with open_work(database) as work:
            executor = Executor(database, work, settings)
            executor.presence.enter()
            _serve_wake_ups(executor, settings)
    finally:
        database.close()


def _serve_wake_ups(executor: Executor, settings: CommonWorkerSettings) -> None:
    app = create_celery_app(settings)
    app.task(name=WAKE_UP)(executor.work)
    _connect_signals(executor, app)
    logger.info("%s, devices %s", ", ".join(executor.queues), executor.devices)
    try:
        consume(
            app,
            queues=executor.queues,
            name=f"{executor.queues[-1]}@{executor.worker_id}",
            threads=executor.threads,
            log_level=settings.log_level,
        )
    finally:
        executor.stopping.set()
        _deregister(executor)
        executor.presence.leave()


def _connect_signals(executor: Executor, app: Celery) -> None:
    """Send heartbeats while the worker runs, and stop its jobs when it shuts down. Celery tells of
    every signal: the second one leaves trainings no time to save."""

    def ready(**_: object) -> None:
        threading.Thread(target=_send_heartbeats, args=(executor,), daemon=True).start()

    def shutting_down(**_: object) -> None:
        executor.stopping.on_signal()
        end_waits(app)

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
