"""The Celery application of every process, on any Celery broker or on plain files."""

import os
from pathlib import Path

from celery import Celery
from kombu import Queue

from services.core.jobs.file_broker import SCHEME, remove_abandoned
from services.core.jobs.queues import ALL_QUEUES
from services.core.settings import Settings

WAKE_UP = "temper.wake_up"
"""The one task: look in the database for work in the queue that the message came through."""

FILE_POLLING_SECONDS = 0.05
BROKER_SECONDS = 10.0


def create_celery_app(settings: Settings) -> Celery:
    """Create the application. Messages carry the name of a queue and nothing else, as JSON."""
    app = Celery("temper")
    app.conf.update(
        broker_url=settings.broker_url or f"{SCHEME}://",
        broker_transport_options=(
            _socket_timeouts(settings.broker_url)
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
        task_queues=[Queue(name, routing_key=name) for name in ALL_QUEUES],
        task_create_missing_queues=False,
    )
    return app


def send_wake_up(app: Celery, queue: str) -> None:
    """Wake one worker of ``queue``; raises kombu's OperationalError when the broker is down."""
    app.send_task(WAKE_UP, kwargs={"queue": queue}, queue=queue, retry=False)


def ping_broker(app: Celery) -> None:
    """Raise when the broker does not answer, or the folder of the file broker is gone."""
    folder = app.conf.broker_transport_options.get("data_folder_in")
    if folder is not None and not os.access(folder, os.W_OK | os.X_OK):
        raise FileNotFoundError("the file broker's folder is gone or not writable")
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, timeout=2)


def _socket_timeouts(broker_url: str) -> dict[str, object]:
    """A broker that accepts connections but never answers counts as down."""
    if not broker_url.startswith(("redis://", "rediss://")):
        return {}
    return {"socket_connect_timeout": BROKER_SECONDS, "socket_timeout": BROKER_SECONDS}


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
        "polling_interval": FILE_POLLING_SECONDS,
    }
