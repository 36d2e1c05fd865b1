"""Shorthand for tests that drive the job machine."""

from collections.abc import Mapping
from typing import Any

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.ids import new_id
from services.jobs.claims import Claim, Claimant, claim_validation, claim_work
from services.jobs.devices import HostDevices
from services.jobs.job import Job, NewJob
from services.jobs.store import create_job, get_job, move_job

QUEUE = "training"
VALIDATION_QUEUE = "training.validation"


def cpu_worker(name: str = "a", slots: int = 1, lease_seconds: float = 60.0) -> Claimant:
    return Claimant(f"host:{name}", HostDevices("host", (), slots), lease_seconds)


def gpu_worker(*gpus: str, host: str = "gpu-host") -> Claimant:
    return Claimant(f"{host}:1", HostDevices(host, gpus, 0), 60.0)


def new_job(
    database: Database,
    *,
    gpus: int | None = 0,
    priority: int = 0,
    metadata: dict[str, str] | None = None,
    devices: list[int | str] | None = None,
    asked: Mapping[str, Any] | None = None,
) -> Job:
    """A job whose request has the fields ``asked`` for."""
    with database.write() as session:
        return create_job(
            session,
            NewJob(
                id=new_id("ftjob"),
                kind="fine_tuning",
                queue=QUEUE,
                validation_queue=VALIDATION_QUEUE,
                request={"model": "m", "devices": devices, **(asked or {})},
                gpus=gpus,
                priority=priority,
                metadata=metadata,
            ),
        )


def queued_job(
    database: Database,
    *,
    gpus: int | None = 0,
    priority: int = 0,
    devices: list[int | str] | None = None,
) -> Job:
    gpus = len(devices) if devices else gpus
    job = new_job(database, gpus=gpus, priority=priority, devices=devices)
    with database.write() as session:
        return move_job(session, job, JobStatus.QUEUED, "valid")


def claim(database: Database, worker: Claimant, occupied: frozenset[str] = frozenset()) -> Claim:
    found = try_claim(database, worker, occupied)
    assert found is not None
    return found


def try_claim(
    database: Database, worker: Claimant, occupied: frozenset[str] = frozenset()
) -> Claim | None:
    with database.write() as session:
        return claim_work(session, [QUEUE], worker, occupied)


def try_claim_validation(database: Database, worker: Claimant) -> Claim | None:
    with database.write() as session:
        return claim_validation(session, [VALIDATION_QUEUE], worker)


def read(database: Database, job_id: str) -> Job:
    with database.read() as session:
        return get_job(session, job_id)
