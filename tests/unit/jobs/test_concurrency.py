"""Workers of several hosts claim concurrently, on both databases."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from services.contracts.errors import Conflict
from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.jobs.claims import Claim, Claimant, check_claim, claim_work
from services.jobs.devices import HostDevices, release_devices
from services.jobs.job import LeaseLost
from services.jobs.store import move_job, request_cancel
from tests.support.servers import running_postgres
from tests.support.waiting import wait_for
from tests.unit.jobs.machine import QUEUE, queued_job, read, try_claim

JOBS = 40
HOSTS = {"host-a": ("GPU-a0", "GPU-a1", "GPU-a2"), "host-b": ("GPU-b0", "GPU-b1")}


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with running_postgres() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    sqlite = f"sqlite:///{tmp_path / 'temper.db'}"
    url = sqlite if request.param == "sqlite" else request.getfixturevalue("postgres")
    database = Database(url)
    migrate(database)
    yield database
    database.close()


class Devices:
    """Who uses what at this moment; a second user of anything is a failure."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.used: set[str] = set()
        self.runs: Counter[str] = Counter()

    def enter(self, claim: Claim) -> None:
        with self.lock:
            taken = {claim.job.id, *claim.devices}
            assert not taken & self.used, f"{taken & self.used} is used twice"
            self.used |= taken
            self.runs[claim.job.id] += 1

    def leave(self, claim: Claim) -> None:
        with self.lock:
            self.used -= {claim.job.id, *claim.devices}


def work(database: Database, claimant: Claimant, devices: Devices, left: threading.Event) -> None:
    while not left.is_set():
        try:
            claim = try_claim(database, claimant)
        except (LeaseLost, IntegrityError):
            continue
        if claim is None:
            left.wait(0.005)
            continue
        devices.enter(claim)
        devices.leave(claim)
        with database.write() as session:
            job = check_claim(session, claim)
            move_job(session, job, JobStatus.SUCCEEDED, "done")
            release_devices(session, job.id, job.epoch)


def test_concurrent_claims_take_every_job_and_device_exactly_once(shared: Database) -> None:
    jobs = [queued_job(shared, gpus=1 + number % 2, priority=number % 3) for number in range(JOBS)]
    cancelled = [job.id for job in jobs[::10]]
    devices, left = Devices(), threading.Event()
    claimants = [
        Claimant(f"{host}:{number}", HostDevices(host, gpus, 0), 60.0)
        for host, gpus in HOSTS.items()
        for number in range(4)
    ]

    def cancel_some() -> None:
        for job_id in cancelled:
            try:
                with shared.write() as session:
                    request_cancel(session, job_id)
            except Conflict:
                continue  # it was faster

    def all_ended() -> bool:
        return all(read(shared, job.id).status.is_final for job in jobs)

    with ThreadPoolExecutor(len(claimants) + 1) as pool:
        workers = [pool.submit(work, shared, claimant, devices, left) for claimant in claimants]
        pool.submit(cancel_some).result()
        try:
            wait_for(
                lambda: all_ended() or any(worker.done() for worker in workers), "all ended", 180
            )
        finally:
            left.set()
        for worker in workers:
            worker.result()

    assert all_ended()
    assert set(devices.runs.values()) == {1}
    ended = Counter(read(shared, job.id).status for job in jobs)
    assert ended[JobStatus.SUCCEEDED] == len(devices.runs)
    assert ended[JobStatus.SUCCEEDED] + ended[JobStatus.CANCELLED] == JOBS


def test_a_job_being_claimed_by_another_host_is_skipped(postgres: str) -> None:
    database = Database(postgres)
    migrate(database)
    first, second = queued_job(database, gpus=0), queued_job(database, gpus=0)

    with database.write() as session:
        mine = claim_work(session, [QUEUE], Claimant("a:1", HostDevices("a", (), 1), 60.0), ())
        theirs = try_claim(database, Claimant("b:1", HostDevices("b", (), 1), 60.0))

    assert mine is not None
    assert theirs is not None
    assert (mine.job.id, theirs.job.id) == (first.id, second.id)
    database.close()
