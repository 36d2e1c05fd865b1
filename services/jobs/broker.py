"""The Celery application of every process, on any Celery broker or on plain files."""

import logging
import os
import secrets
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty
from typing import Any

from celery import Celery
from kombu import Queue
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps, loads

from services.core.changes import Doorbell, ring
from services.core.settings import Settings
from services.jobs.queues import all_queues

logger = logging.getLogger(__name__)

WAKE_UP = "temper.wake_up"
"""The one task: look in the database for work in the queue that the message came through."""

SCHEME = "temper-files"
LOOK_UP_SECONDS = 2.0
"""How often a worker looks for messages that it was not told of; what Celery asks for."""
ABANDONED_SECONDS = 60.0
"""A message still incomplete after this time was abandoned by a killed writer."""
FILE_POLLING_SECONDS = 0.05
"""How often, where the file system has no named pipes."""
BELLS = "bells"
"""Folder of the workers' doorbells, beside that of the messages."""
BROKER_SECONDS = 10.0
REDIS_WAIT_SECONDS = 5
"""How long Redis holds a worker's request for a message; below `BROKER_SECONDS`."""


_ending = threading.Event()


def create_celery_app(settings: Settings) -> Celery:
    """Create the application. Messages carry the name of a queue and nothing else, as JSON."""
    app = Celery("temper")
    app.conf.update(
        broker_url=settings.broker_url or f"{SCHEME}://",
        broker_transport_options=(
            _server_options(settings.broker_url)
            if settings.broker_url
            else _file_transport(settings.home)
        ),
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=5,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        task_queues=[Queue(name, routing_key=name) for name in all_queues()],
        task_create_missing_queues=False,
    )
    return app


def send_wake_up(app: Celery, queue: str) -> None:
    """Wake one worker of ``queue``; raises kombu's OperationalError when the broker is down."""
    app.send_task(WAKE_UP, kwargs={"queue": queue}, queue=queue, retry=False)


def consume(app: Celery, *, queues: Sequence[str], name: str, threads: int, log_level: str) -> None:
    """Run `WAKE_UP` for the messages of ``queues`` until a signal stops the process."""
    # Not by `worker_main`: Celery's command line and its shell would take 10 MB for good.
    worker = app.Worker(
        hostname=name,
        pool_cls="threads",
        concurrency=threads,
        queues=",".join(queues),
        loglevel=log_level,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()


def end_waits(app: Celery) -> None:
    """Have this process, a worker that shuts down, no longer wait for messages of a file broker.

    Celery, which is told by a signal, would wait for this wait and for another one.
    """
    _ending.set()
    folder = app.conf.broker_transport_options.get("data_folder_in")
    if folder is not None:
        ring(Path(folder).with_name(BELLS))


def ping_broker(app: Celery) -> None:
    """Raise when the broker does not answer, or the folder of the file broker is gone."""
    folder = app.conf.broker_transport_options.get("data_folder_in")
    if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
        raise FileNotFoundError("the file broker's folder is gone or not writable")
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=2)


def _server_options(broker_url: str) -> dict[str, object]:
    """A broker that accepts connections but never answers counts as down."""
    if not broker_url.startswith(("redis://", "rediss://")):
        return {}
    return {
        "socket_connect_timeout": BROKER_SECONDS,
        "socket_timeout": BROKER_SECONDS,
        "polling_interval": REDIS_WAIT_SECONDS,
    }


def restore_file_broker(app: Celery) -> None:
    """Create the folders of a file broker again if they are gone."""
    options = app.conf.broker_transport_options
    for name in ("data_folder_in", "control_folder"):
        if name in options:
            Path(options[name]).mkdir(mode=0o700, parents=True, exist_ok=True)


def _file_transport(home: Path) -> dict[str, object]:
    folder = home / "broker"
    for name in ("messages", "control"):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_abandoned(folder / "messages")
    return {
        "data_folder_in": str(folder / "messages"),
        "data_folder_out": str(folder / "messages"),
        "control_folder": str(folder / "control"),
    }


class FileChannel(filesystem.Channel):
    """One connection to the folder of messages.

    kombu's filesystem transport opens a message under its final name before writing it, so that a
    reader can take an empty file, which crashes a Celery worker. Here a message appears atomically
    and belongs to the reader that removes it. A message taken by a worker that is then killed is
    lost; the dispatcher sends another.
    """

    def _queue_bind(self, *_: Any) -> None:
        """Keep no binding table: wake-ups are addressed to their queue directly."""

    def _put(self, queue: str, payload: Any, **_: Any) -> None:  # type: ignore[override]  # the stub differs
        """Add a message; names sort by time."""
        name = f"{time.time_ns():020d}-{secrets.token_hex(6)}.{queue}.msg"
        folder = Path(self.data_folder_out)
        partial = folder / f"{name}.partial"
        try:
            partial.write_text(dumps(payload))
        except FileNotFoundError:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_text(dumps(payload))
        partial.rename(folder / name)
        ring(folder.with_name(BELLS))

    def _get(self, queue: str, timeout: float | None = None) -> Any:  # noqa: ARG002 - kombu's
        """Take the oldest message of ``queue``, or raise `Empty`."""
        try:
            messages = sorted(Path(self.data_folder_in).iterdir())
        except FileNotFoundError:
            raise Empty from None  # the dispatcher creates the folder again
        for path in messages:
            if path.name.partition(".")[2] != f"{queue}.msg":
                continue
            try:
                payload = path.read_bytes()
                path.unlink()
            except FileNotFoundError:
                continue  # another reader took it
            try:
                return loads(payload)
            except ValueError:  # a power cut can leave an empty file under the final name
                logger.warning("dropped the damaged message %s", path.name)
        raise Empty


def remove_abandoned(folder: Path) -> None:
    """Remove incomplete messages of killed writers."""
    for path in folder.glob("*.partial"):
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < time.time() - ABANDONED_SECONDS:
                path.unlink()


class FileTransport(filesystem.Transport):
    """The transport of ``temper-files://`` broker URLs."""

    Channel = FileChannel
    driver_type = driver_name = SCHEME
    _bell: Doorbell | None = None

    def drain_events(  # type: ignore[override]  # the stub differs
        self,
        connection: Any,  # noqa: ARG002 - kombu's
        timeout: float | None = None,
    ) -> None:
        """Wait for a message, or until the bell rings without one.

        Raises TimeoutError without one: between waits, a worker acknowledges what it has taken,
        without which it may take no more, and ends if it shall.
        """
        if self._deliver_next() or (self._has_new_bell() and self._deliver_next()):
            return
        if not _ending.is_set():
            self._pause(min(timeout or LOOK_UP_SECONDS, LOOK_UP_SECONDS))
        if not self._deliver_next():
            raise TimeoutError

    def close_connection(self, connection: Any) -> None:
        """Close the connection and remove its bell."""
        super().close_connection(connection)
        if self._bell is not None:
            self._bell.close()
            self._bell = None

    def _deliver_next(self) -> bool:
        if self._is_empty():  # once for all queues
            return False
        cycle: Any = self.cycle
        try:
            cycle.get(self._deliver)
        except Empty:
            return False
        return True

    def _is_empty(self) -> bool:
        try:
            with os.scandir(self._messages) as found:
                return next(found, None) is None
        except FileNotFoundError:
            return True  # the dispatcher creates the folder again

    def _has_new_bell(self) -> bool:
        """Make the bell, unless there is one; what came before it has not rung it."""
        if self._bell is not None:
            return False
        with suppress(OSError):
            self._bell = Doorbell(self._messages.with_name(BELLS))
        return self._bell is not None

    def _pause(self, seconds: float) -> None:
        """Wait until something may have arrived, for so many seconds at most."""
        if self._bell is not None:
            self._bell.wait(seconds)
        else:
            time.sleep(min(FILE_POLLING_SECONDS, seconds))

    @property
    def _messages(self) -> Path:
        client: Any = self.client
        return Path(client.transport_options["data_folder_in"])


TRANSPORT_ALIASES[SCHEME] = f"{__name__}:FileTransport"
