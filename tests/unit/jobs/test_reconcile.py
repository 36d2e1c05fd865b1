"""Repairs after crashes."""

from sqlalchemy import delete, select

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.db.tables import OutboxRow
from services.jobs.devices import HostDevices, free_devices, release_stale_devices
from services.jobs.job import NO_DEVICE
from services.jobs.reconcile import (
    MAX_LOSSES,
    explain_waiting,
    recover_expired,
    wake_waiting_queues,
)
from services.jobs.store import move_job, request_cancel
from services.jobs.workers import heartbeat, live_workers, remove_worker
from tests.unit.jobs.machine import (
    claim,
    cpu_worker,
    gpu_worker,
    new_job,
    queued_job,
    read,
    try_claim_validation,
)

EXPIRED = cpu_worker("silent", lease_seconds=-10.0)


def recover(database: Database, grace_seconds: float = 0.0) -> int:
    with database.write() as session:
        return recover_expired(session, grace_seconds)


def outbox(database: Database) -> list[str]:
    with database.read() as session:
        return list(session.scalars(select(OutboxRow.queue).order_by(OutboxRow.seq)))


def serve(database: Database) -> None:
    """A live worker of the training queue."""
    with database.write() as session:
        heartbeat(session, "host:1", ["training"], HostDevices("host", (), 1))


def empty_outbox(database: Database) -> None:
    with database.write() as session:
        session.execute(delete(OutboxRow))


def test_a_job_whose_worker_is_silent_is_requeued(database: Database) -> None:
    job = queued_job(database)
    claim(database, EXPIRED)

    assert recover(database) == 1

    assert read(database, job.id).status is JobStatus.QUEUED
    assert outbox(database)[-1] == "training"


def test_a_job_is_requeued_only_after_lease_and_grace_period(database: Database) -> None:
    job = queued_job(database)
    claim(database, EXPIRED)

    assert recover(database, grace_seconds=60.0) == 0
    assert read(database, job.id).status is JobStatus.RUNNING


def test_a_job_that_keeps_losing_workers_fails(database: Database) -> None:
    job = queued_job(database)
    for _ in range(MAX_LOSSES):
        claim(database, EXPIRED)
        recover(database)
        with database.write() as session:
            release_stale_devices(session)

    failed = read(database, job.id)
    assert failed.status is JobStatus.FAILED
    assert failed.error is not None
    assert failed.error.code == "worker_lost"
    assert failed.attempt == MAX_LOSSES


def test_a_lease_that_a_live_worker_could_not_renew_is_no_loss(database: Database) -> None:
    job = queued_job(database)
    for _ in range(MAX_LOSSES + 1):
        claim(database, EXPIRED)
        with database.write() as session:
            heartbeat(session, EXPIRED.owner, ["training"], EXPIRED.devices)
        recover(database)
        with database.write() as session:
            release_stale_devices(session)

    assert (read(database, job.id).status, read(database, job.id).losses) == (JobStatus.QUEUED, 0)


def test_a_cancelled_job_that_loses_its_worker_is_cancelled(database: Database) -> None:
    job = queued_job(database)
    claim(database, EXPIRED)
    with database.write() as session:
        request_cancel(session, job.id)

    recover(database)

    assert read(database, job.id).status is JobStatus.CANCELLED


def test_a_lost_validation_is_repeated_by_another_worker(database: Database) -> None:
    job = new_job(database)
    assert try_claim_validation(database, EXPIRED) is not None

    recover(database)

    again = try_claim_validation(database, cpu_worker("b"))
    assert again is not None
    assert again.job.id == job.id


def test_a_validation_that_keeps_losing_workers_fails_the_job(database: Database) -> None:
    job = new_job(database)
    for _ in range(MAX_LOSSES):
        assert try_claim_validation(database, EXPIRED) is not None
        recover(database)

    failed = read(database, job.id)
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (JobStatus.FAILED, "worker_lost")


def test_unserved_queues_get_no_wake_ups(database: Database) -> None:
    queued_job(database)
    empty_outbox(database)

    with database.write() as session:
        wake_waiting_queues(session, older_than_seconds=0.0)

    assert outbox(database) == []


def test_a_job_too_large_for_all_workers_has_that_queue_reason(database: Database) -> None:
    job = queued_job(database, gpus=2)
    serve(database)

    with database.write() as session:
        explain_waiting(session)

    reason = read(database, job.id).queue_reason
    assert reason == "no running training worker has 2 GPUs; ask for fewer, or add a host"


def test_a_job_for_devices_that_no_worker_has_is_told_so(database: Database) -> None:
    job = queued_job(database, devices=[3, "GPU-elsewhere"])
    serve(database)

    with database.write() as session:
        explain_waiting(session)

    reason = read(database, job.id).queue_reason
    missing = "no running training worker has the GPUs 3, GPU-elsewhere"
    assert reason == f"{missing}; leave devices out to take any"


def test_a_job_that_holds_no_device_keeps_its_own_reason(database: Database) -> None:
    job = new_job(database, gpus=NO_DEVICE, devices=[0])
    serve(database)
    with database.write() as session:
        move_job(session, job, JobStatus.QUEUED, "it waits", queue_reason="waiting for eval-1")
        explain_waiting(session)

    assert read(database, job.id).queue_reason == "waiting for eval-1"


def test_only_devices_of_lost_claims_are_released(database: Database) -> None:
    queued_job(database, gpus=1)
    queued_job(database, gpus=1)
    worker = gpu_worker("GPU-a", "GPU-b")
    claim(database, worker)
    lost = claim(database, worker)
    with database.write() as session:
        move_job(session, lost.job, JobStatus.QUEUED, "lost")
        assert release_stale_devices(session) == 1
        assert free_devices(session, ["GPU-a", "GPU-b"]) == ["GPU-b"]


def test_a_waiting_job_gets_one_pending_wake_up(database: Database) -> None:
    queued_job(database)
    queued_job(database)
    serve(database)
    empty_outbox(database)

    for _ in range(2):
        with database.write() as session:
            wake_waiting_queues(session, older_than_seconds=0.0)

    assert outbox(database) == ["training"]


def test_a_new_job_gets_no_second_wake_up_at_once(database: Database) -> None:
    queued_job(database)
    serve(database)
    empty_outbox(database)

    with database.write() as session:
        wake_waiting_queues(session, older_than_seconds=60.0)

    assert outbox(database) == []


def test_the_queue_reason_names_a_missing_worker(database: Database) -> None:
    job = queued_job(database)
    with database.write() as session:
        explain_waiting(session)
    reason = read(database, job.id).queue_reason
    assert reason == "no training worker is running: temper up starts the workers"

    with database.write() as session:
        heartbeat(session, "host:1", ["training"], HostDevices("host", (), 1))
        explain_waiting(session)
    assert read(database, job.id).queue_reason == "waiting for its turn"


def test_a_job_whose_files_no_worker_can_check_says_so(database: Database) -> None:
    job = new_job(database)
    with database.write() as session:
        explain_waiting(session)
    missing = "no training worker is running to check its files"
    assert read(database, job.id).queue_reason == f"{missing}: temper up starts the workers"

    with database.write() as session:
        heartbeat(session, "host:1", ["training.validation"], HostDevices("host", (), 1))
        explain_waiting(session)
    assert read(database, job.id).queue_reason is None


def test_a_worker_is_listed_from_its_first_heartbeat_until_it_is_removed(
    database: Database,
) -> None:
    with database.write() as session:
        heartbeat(session, "host:1", ["training"], HostDevices("host", ("GPU-a",), 1))
        heartbeat(session, "host:1", ["training"], HostDevices("host", ("GPU-a",), 1))
        assert [worker.id for worker in live_workers(session)] == ["host:1"]
        remove_worker(session, "host:1")
        assert live_workers(session) == []
