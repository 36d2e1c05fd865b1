"""The file broker, on kombu's virtual transport as of 5.7."""

import os
import socket
import threading
from importlib.metadata import version
from pathlib import Path
from queue import Empty
from typing import cast

import pytest
from kombu import Connection, Message, Queue
from kombu.exceptions import OperationalError

from services.core.changes import Doorbell
from services.core.settings import Settings
from services.jobs import broker
from services.jobs.broker import (
    SCHEME,
    FileChannel,
    create_celery_app,
    end_waits,
    ping_broker,
    send_wake_up,
)
from tests.support.waiting import wait_for


def connect(folder: Path) -> Connection:
    for name in ("messages", "control"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    messages = str(folder / "messages")
    options = {
        "data_folder_in": messages,
        "data_folder_out": messages,
        "control_folder": str(folder / "control"),
    }
    return Connection(f"{SCHEME}://", transport_options=options)


def channel_of(connection: Connection) -> FileChannel:
    return cast("FileChannel", connection.default_channel)


def test_the_transport_matches_the_installed_kombu() -> None:
    assert version("kombu").startswith("5.")


def test_messages_are_delivered_once_in_order(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        channel = channel_of(connection)
        for number in range(5):
            channel._put("training", {"body": number})
        channel._put("training.validation", {"body": "other queue"})

        taken = [channel._get("training")["body"] for _ in range(5)]

        assert taken == list(range(5))
        with pytest.raises(Empty):
            channel._get("training")


def test_a_deleted_folder_is_empty_and_created_by_the_next_message(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        channel = channel_of(connection)
        (tmp_path / "messages").rmdir()

        with pytest.raises(Empty):
            channel._get("training")
        channel._put("training", {"body": 1})

        assert channel._get("training")["body"] == 1


def test_incomplete_messages_are_invisible(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        (tmp_path / "messages" / "1-a.training.msg.partial").write_text('{"half')

        with pytest.raises(Empty):
            channel_of(connection)._get("training")


def test_concurrent_readers_and_writers_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    count, readers = 200, 4
    taken: list[int] = []
    done = threading.Event()

    def write() -> None:
        with connect(tmp_path) as connection:
            for number in range(count):
                channel_of(connection)._put("q", {"body": number})
        done.set()

    def read() -> None:
        with connect(tmp_path) as connection:
            while True:
                finished = done.is_set()
                try:
                    taken.append(channel_of(connection)._get("q")["body"])
                except Empty:
                    if finished:
                        return

    threads = [threading.Thread(target=read) for _ in range(readers)]
    for thread in [*threads, threading.Thread(target=write)]:
        thread.start()
    for thread in threads:
        thread.join(300)

    assert sorted(taken) == list(range(count))


def test_a_wake_up_is_written_to_the_default_broker(tmp_path: Path) -> None:
    app = create_celery_app(Settings(home=tmp_path))

    ping_broker(app)
    send_wake_up(app, "training")

    (message,) = (tmp_path / "broker" / "messages").iterdir()
    assert message.name.endswith(".training.msg")


def test_a_corrupt_message_is_skipped(tmp_path: Path) -> None:
    with connect(tmp_path) as connection:
        (tmp_path / "messages" / "0-a.training.msg").touch()
        channel_of(connection)._put("training", {"body": 1})

        assert channel_of(connection)._get("training")["body"] == 1


def test_incomplete_messages_of_killed_writers_are_removed_at_start(tmp_path: Path) -> None:
    create_celery_app(Settings(home=tmp_path))
    messages = tmp_path / "broker" / "messages"
    old, fresh = messages / "1.training.msg.partial", messages / "2.training.msg.partial"
    for path in (old, fresh):
        path.touch()
    os.utime(old, (0, 0))

    create_celery_app(Settings(home=tmp_path))

    assert (old.exists(), fresh.exists()) == (False, True)


def test_an_unresponsive_redis_counts_as_down(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"redis://127.0.0.1:{mute.getsockname()[1]}/0"
        app = create_celery_app(Settings(home=tmp_path, broker_url=url))
        app.conf.broker_transport_options = app.conf.broker_transport_options | {
            "socket_timeout": 0.2
        }

        with pytest.raises(OperationalError):
            send_wake_up(app, "training")


def test_a_consumer_is_woken_by_a_message_and_hears_of_none_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "LOOK_UP_SECONDS", 60.0)  # it must be told
    taken: list[object] = []
    app = create_celery_app(Settings(home=tmp_path))

    def consume() -> None:
        with app.connection_for_read() as connection:
            queues = [Queue("training"), Queue("evaluation")]
            with connection.Consumer(queues, on_message=take, no_ack=True):
                listening.set()
                connection.drain_events(timeout=60)
                with pytest.raises(TimeoutError):
                    connection.drain_events(timeout=0.01)

    def take(message: Message) -> None:
        taken.append(message.delivery_info["routing_key"])

    listening = threading.Event()
    consumer = threading.Thread(target=consume)
    consumer.start()
    assert listening.wait(60)
    wait_for(lambda: len(list((tmp_path / "broker" / "bells").glob("*"))) == 1, "it listens")
    send_wake_up(app, "evaluation")
    consumer.join(30)

    assert not consumer.is_alive()
    assert taken == ["evaluation"]
    assert list((tmp_path / "broker" / "bells").iterdir()) == []


def test_a_worker_that_shuts_down_waits_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "LOOK_UP_SECONDS", 60.0)
    monkeypatch.setattr(broker, "_ending", threading.Event())
    app = create_celery_app(Settings(home=tmp_path))
    ended = threading.Event()

    def consume() -> None:
        with (
            app.connection_for_read() as connection,
            connection.Consumer([Queue("training")], no_ack=True),
        ):
            for _ in range(2):  # so often does Celery wait
                with pytest.raises(TimeoutError):
                    connection.drain_events(timeout=60)
            ended.set()

    consumer = threading.Thread(target=consume)
    consumer.start()
    wait_for(lambda: len(list((tmp_path / "broker" / "bells").glob("*"))) == 1, "it listens")
    end_waits(app)

    assert ended.wait(30)
    consumer.join(30)


def test_a_consumer_waits_although_others_have_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(_: Doorbell, seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(Doorbell, "wait", wait)
    with connect(tmp_path) as connection, connection.Consumer([Queue("training")], no_ack=True):
        (tmp_path / "messages" / "0-a.evaluation.msg").touch()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=1.0)

    assert waits == [1.0] * 3


def test_an_empty_folder_is_read_once_for_all_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def get(_: FileChannel, queue: str, **__: object) -> None:
        asked.append(queue)
        raise Empty

    monkeypatch.setattr(FileChannel, "_get", get)
    queues = [Queue("training"), Queue("evaluation")]
    with connect(tmp_path) as connection, connection.Consumer(queues, no_ack=True):
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.01)
        assert asked == []

        (tmp_path / "messages" / "0-a.training.msg").touch()
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=0.01)
        assert {"training", "evaluation"} <= set(asked)
