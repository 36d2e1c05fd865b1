"""The dispatcher when part of its work fails."""

import shutil
import time
from pathlib import Path

import pytest
from kombu.exceptions import OperationalError
from sqlalchemy import select

from services.api.dispatcher import WAKE_UPS_AT_ONCE, Dispatcher
from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import Database
from services.core.db.tables import OutboxRow
from services.core.process.supervised import lease_clock
from services.core.settings import Settings
from services.jobs.broker import create_celery_app, ping_broker
from services.jobs.queues import add_wake_up
from services.jobs.store import fail_job, get_job
from tests.support.waiting import wait_for
from tests.unit.jobs.machine import claim, cpu_worker, queued_job, read


@pytest.fixture
def dispatcher(database: Database, tmp_path: Path) -> Dispatcher:
    queue = create_celery_app(Settings(home=tmp_path))
    return Dispatcher(database, queue, reconcile_seconds=5.0, lease_seconds=60.0, grace_seconds=0.0)


def messages(home: Path) -> int:
    return len(list((home / "broker" / "messages").iterdir()))


def unsent(database: Database) -> int:
    with database.read() as session:
        return len(session.scalars(select(OutboxRow)).all())


def test_wake_ups_of_a_queue_are_batched(
    database: Database, dispatcher: Dispatcher, tmp_path: Path
) -> None:
    with database.write() as session:
        for _ in range(200):
            add_wake_up(session, "training")
        add_wake_up(session, "evaluation")

    dispatcher.publish()

    assert messages(tmp_path) == WAKE_UPS_AT_ONCE + 1
    assert unsent(database) == 0


def test_wake_ups_wait_until_the_broker_is_back(
    database: Database,
    dispatcher: Dispatcher,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("connection refused")

    with database.write() as session:
        add_wake_up(session, "training")
    with monkeypatch.context() as patch, pytest.raises(OperationalError):
        patch.setattr("services.api.dispatcher.send_wake_up", away)
        dispatcher.publish()
    assert unsent(database) == 1

    dispatcher.publish()

    assert (unsent(database), messages(tmp_path)) == (0, 1)


def test_wake_ups_of_other_processes_are_published_at_once(
    database: Database, tmp_path: Path
) -> None:
    queue = create_celery_app(Settings(home=tmp_path))
    dispatcher = Dispatcher(
        database, queue, reconcile_seconds=3600.0, lease_seconds=60.0, grace_seconds=0.0
    )
    bells = Path(database.engine.url.database or "").with_name("bells")
    dispatcher.start()
    wait_for(lambda: bells.is_dir() and any(bells.iterdir()), "it listens")
    try:
        with database.write() as session:
            add_wake_up(session, "training")

        wait_for(lambda: messages(tmp_path) == 1, "the wake-up is published")
    finally:
        dispatcher.stop()
    assert list(bells.iterdir()) == []


def test_a_failing_repair_does_not_block_the_others(
    database: Database, dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("poison")

    job = queued_job(database)
    monkeypatch.setattr("services.api.dispatcher.recover_expired", broken)
    monkeypatch.setattr(dispatcher._stopping, "wait", lambda _seconds: None)

    dispatcher.reconcile()

    assert read(database, job.id).queue_reason == (
        "no training worker is running: temper up starts the workers"
    )


def test_a_lost_job_is_recovered_with_its_devices(
    database: Database, dispatcher: Dispatcher
) -> None:
    job = queued_job(database)
    claim(database, cpu_worker("silent", lease_seconds=-10.0))

    dispatcher.reconcile()

    assert read(database, job.id).status is JobStatus.QUEUED
    assert claim(database, cpu_worker("other")).job.id == job.id


def test_a_lost_job_is_recovered_when_nothing_was_under_way_before(
    database: Database, dispatcher: Dispatcher
) -> None:
    for _ in range(3):
        dispatcher.reconcile()
    job = queued_job(database)
    claim(database, cpu_worker("silent", lease_seconds=-10.0))

    dispatcher.reconcile()

    assert read(database, job.id).status is JobStatus.QUEUED


def test_an_idle_dispatcher_leaves_the_database_alone(database: Database, tmp_path: Path) -> None:
    swept: list[Database] = []
    queue = create_celery_app(Settings(home=tmp_path))
    dispatcher = Dispatcher(
        database,
        queue,
        reconcile_seconds=5.0,
        lease_seconds=60.0,
        grace_seconds=0.0,
        sweeps=[swept.append],
    )
    for _ in range(3):
        dispatcher.reconcile()
    assert len(swept) == 1
    job = queued_job(database)
    for _ in range(2):
        dispatcher.reconcile()
    assert len(swept) == 3
    with database.write() as session:
        fail_job(session, get_job(session, job.id), JobError(code="test", message="it ended"))

    dispatcher.reconcile()

    assert len(swept) == 3


def test_a_deleted_file_broker_is_reported_not_ready_and_recreated(
    database: Database, tmp_path: Path
) -> None:
    queue = create_celery_app(Settings(home=tmp_path))
    dispatcher = Dispatcher(
        database, queue, reconcile_seconds=5.0, lease_seconds=60.0, grace_seconds=0.0
    )
    ping_broker(queue)
    shutil.rmtree(tmp_path / "broker")
    with pytest.raises(FileNotFoundError):
        ping_broker(queue)

    dispatcher.reconcile()

    ping_broker(queue)


@pytest.mark.parametrize("interruption", ["an outage of the database", "a clock jump"])
def test_leases_can_be_renewed_after_an_interruption(
    database: Database,
    dispatcher: Dispatcher,
    monkeypatch: pytest.MonkeyPatch,
    interruption: str,
) -> None:
    clock, time_of_day = lease_clock(), time.time()
    dispatcher.reconcile()
    job = queued_job(database)
    claim(database, cpu_worker("interrupted"))

    elapsed = 1000.0 if interruption == "an outage of the database" else 5.0
    monkeypatch.setattr("services.api.dispatcher.lease_clock", lambda: clock + elapsed)
    monkeypatch.setattr(time, "time", lambda: time_of_day + 1000.0)
    dispatcher.reconcile()
    assert read(database, job.id).status is JobStatus.RUNNING

    monkeypatch.setattr("services.api.dispatcher.lease_clock", lambda: clock + elapsed + 15.0)
    monkeypatch.setattr(time, "time", lambda: time_of_day + 1015.0)
    dispatcher.reconcile()
    assert read(database, job.id).status is JobStatus.RUNNING

    monkeypatch.setattr("services.api.dispatcher.lease_clock", lambda: clock + elapsed + 31.0)
    monkeypatch.setattr(time, "time", lambda: time_of_day + 1031.0)
    dispatcher.reconcile()
    assert read(database, job.id).status is JobStatus.QUEUED
