"""Who waits for the devices that a job holds."""

from services.core.db.engine import Database
from services.jobs.claims import Claim
from services.jobs.contention import has_waiters, jobs_in_the_way
from services.jobs.devices import HostDevices
from services.jobs.store import get_job
from services.jobs.workers import heartbeat
from tests.unit.jobs.machine import (
    QUEUE,
    claim,
    cpu_worker,
    queued_job,
    try_claim,
)


def waits(database: Database, held: Claim) -> bool:
    with database.read() as session:
        return has_waiters(session, held)


def beat(database: Database, worker: str, devices: HostDevices) -> None:
    with database.write() as session:
        heartbeat(session, worker, [QUEUE], devices)


def test_a_job_that_was_found_short_of_such_devices_waits(database: Database) -> None:
    worker = cpu_worker("a", slots=1)
    beat(database, worker.owner, worker.devices)
    queued_job(database)
    held = claim(database, worker)
    queued_job(database)
    assert not waits(database, held)  # nobody has tried to run it yet

    assert try_claim(database, worker) is None

    assert waits(database, held)


def test_a_job_that_wants_a_gpu_does_not_wait_for_a_cpu_slot(database: Database) -> None:
    worker = cpu_worker("a", slots=1)
    beat(database, worker.owner, worker.devices)
    beat(database, "host:b", HostDevices("host", ("GPU-1",), 0))
    queued_job(database)
    held = claim(database, worker)
    queued_job(database, gpus=1)
    assert try_claim(database, worker) is None

    assert not waits(database, held)


def test_a_waiting_job_names_those_that_hold_what_it_lacks(database: Database) -> None:
    worker = cpu_worker("a", slots=1)
    beat(database, worker.owner, worker.devices)
    queued_job(database)
    held = claim(database, worker)
    waiting, other = queued_job(database), queued_job(database, gpus=1)
    assert try_claim(database, worker) is None

    with database.read() as session:
        jobs = [get_job(session, each.id) for each in (waiting, other, held.job)]
        found = jobs_in_the_way(session, jobs, 5)
    assert {name: [each.id for each in jobs] for name, jobs in found.items()} == {
        waiting.id: [held.job.id]
    }
