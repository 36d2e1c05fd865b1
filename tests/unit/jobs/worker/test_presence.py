"""Which workers are dead for certain, and what is taken from them."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.process.supervised import SupervisedProcess, tree_name
from services.jobs.claims import Claim, Claimant
from services.jobs.devices import HostDevices, free_devices
from services.jobs.worker.presence import Identity, Presence, take_from_dead_workers
from services.jobs.workers import RETENTION_SECONDS, heartbeat, live_workers
from tests.support.waiting import wait_for
from tests.unit.jobs.machine import claim, queued_job, read

DEVICES = HostDevices("host", (), 1)
KILLED, OTHER = "host:a/b:1", "host:c:2"

WORKER = """
import sys, time
from pathlib import Path
from services.core.process.supervised import SupervisedProcess
from services.jobs.worker.presence import Presence
folder, tree = Path(sys.argv[1]), sys.argv[2]
presence = Presence(folder / "workers", sys.argv[3])
presence.enter()
SupervisedProcess.start(
    [sys.executable, "-c", sys.argv[4]], cwd=folder, env={}, log=folder / "log", tree=tree,
    grace_seconds=60.0, notes=presence.notes,
)
print("started", flush=True)
time.sleep(600)
"""
FOREVER = "import time; time.sleep(600)"
OBSTINATE = """
import signal, time
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: Path("asked").touch())
Path("deaf").touch()
while not Path("go").exists():
    time.sleep(0.02)
"""


@pytest.fixture
def held(database: Database) -> Claim:
    """A job that the worker to be killed runs on the only slot of its host."""
    queued_job(database)
    with database.write() as session:
        heartbeat(session, KILLED, ["training"], DEVICES)
        heartbeat(session, OTHER, ["training"], DEVICES)
    return claim(database, Claimant(KILLED, DEVICES, 600.0))


@pytest.fixture
def workers(tmp_path: Path) -> Iterator["list[subprocess.Popen[bytes]]"]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    (tmp_path / "go").touch()
    for worker in started:
        worker.kill()
        worker.wait(60)
        assert worker.stdout is not None
        worker.stdout.close()


def start_worker(
    workers: "list[subprocess.Popen[bytes]]", folder: Path, held: Claim, child: str
) -> "subprocess.Popen[bytes]":
    """A process that has a child under a watchdog, as a worker has."""
    tree = tree_name(held.job.id, held.job.epoch)
    command = [sys.executable, "-c", WORKER, str(folder), tree, KILLED, child]
    worker = subprocess.Popen(command, stdout=subprocess.PIPE)
    workers.append(worker)
    assert worker.stdout is not None
    assert worker.stdout.readline() == b"started\n"
    return worker


def take(database: Database, folder: Path) -> int:
    return take_from_dead_workers(database, folder / "workers")


def slots(database: Database) -> list[str]:
    with database.read() as session:
        return free_devices(session, DEVICES.slot_ids())


def test_a_job_of_a_killed_worker_is_queued_long_before_its_lease_expires(
    database: Database, held: Claim, tmp_path: Path, workers: "list[subprocess.Popen[bytes]]"
) -> None:
    worker = start_worker(workers, tmp_path, held, FOREVER)
    assert take(database, tmp_path) == 0

    worker.send_signal(signal.SIGKILL)

    wait_for(lambda: take(database, tmp_path) or None, "the job is taken", 60)
    job = read(database, held.job.id)
    assert job.status is JobStatus.QUEUED
    assert job.losses == 1
    assert slots(database) == DEVICES.slot_ids()
    assert list((tmp_path / "workers").iterdir()) == []
    with database.read() as session:
        assert [row.id for row in live_workers(session)] == [OTHER]


def test_a_job_is_not_taken_while_a_process_of_the_killed_worker_is_left(
    database: Database, held: Claim, tmp_path: Path, workers: "list[subprocess.Popen[bytes]]"
) -> None:
    worker = start_worker(workers, tmp_path, held, OBSTINATE)
    wait_for((tmp_path / "deaf").exists, "the child ignores TERM", 60)

    worker.send_signal(signal.SIGKILL)
    wait_for((tmp_path / "asked").exists, "the watchdog ends the child", 60)

    assert take(database, tmp_path) == 0
    assert slots(database) == []
    (tmp_path / "go").touch()
    wait_for(lambda: take(database, tmp_path) or None, "the job is taken", 60)
    assert slots(database) == DEVICES.slot_ids()


def test_a_note_that_a_killed_watchdog_left_keeps_the_job_until_its_lease_expires(
    database: Database, held: Claim, tmp_path: Path
) -> None:
    presence = Presence(tmp_path / "workers", KILLED)
    presence.enter()
    presence.notes.joinpath(f"{tree_name(held.job.id, held.job.epoch)}%2Fwandb.1a").touch()

    taken = take_from_dead_workers(database, tmp_path / "workers", lambda _: True)

    assert taken == 0
    assert read(database, held.job.id).status is JobStatus.RUNNING
    assert presence.notes.is_dir()


def dead_process() -> Identity:
    """An identity whose process was killed."""
    process = subprocess.Popen([sys.executable, "-c", FOREVER])
    started = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    identity = dataclasses.replace(Identity.own(), pid=process.pid, started=started)
    assert not identity.is_dead()
    process.kill()
    process.wait(60)
    return identity


def test_a_process_is_dead_once_it_was_killed() -> None:
    assert not Identity.own().is_dead()
    assert dead_process().is_dead()


def test_a_process_that_nobody_has_waited_for_is_dead() -> None:
    process = subprocess.Popen([sys.executable, "-c", FOREVER])
    stat = Path(f"/proc/{process.pid}/stat")
    started = int(stat.read_text().rpartition(")")[2].split()[19])
    identity = dataclasses.replace(Identity.own(), pid=process.pid, started=started)
    process.kill()
    wait_for(identity.is_dead, "the zombie is dead", 60)
    process.wait(60)


def test_a_process_is_dead_when_another_has_its_number() -> None:
    own = Identity.own()

    assert dataclasses.replace(own, started=own.started - 1).is_dead()


def test_nothing_is_known_about_processes_of_other_hosts_and_containers() -> None:
    dead = dead_process()
    boot, *namespaces = dead.scope.split(" ")

    other_host = " ".join(["00000000-0000-0000-0000-000000000000", *namespaces])
    other_container = " ".join([boot, "pid:[1]", *namespaces[1:]])

    assert not dataclasses.replace(dead, scope=other_host).is_dead()
    assert not dataclasses.replace(dead, scope=other_container).is_dead()


def test_the_folder_of_a_foreign_worker_stays_while_it_is_registered_or_has_jobs(
    database: Database, held: Claim, tmp_path: Path
) -> None:
    kept = tmp_path / "workers" / "host%3Aa%2Fb%3A1"
    gone = tmp_path / "workers" / "elsewhere%3A9"
    new = tmp_path / "workers" / "elsewhere%3A10"
    for folder in (kept, gone, new):
        folder.mkdir(parents=True)
    long_ago = time.time() - 2 * RETENTION_SECONDS
    for folder in (kept, gone):
        os.utime(folder, (long_ago, long_ago))

    assert take(database, tmp_path) == 0

    assert sorted((tmp_path / "workers").iterdir()) == sorted([kept, new])


def test_a_note_goes_with_its_tree_and_one_that_could_not_start(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    def start(command: str, deadline: float) -> None:
        process = SupervisedProcess.start(
            [command],
            cwd=tmp_path,
            env={},
            log=tmp_path / "log",
            tree="job:1",
            deadline=deadline,
            grace_seconds=1.0,
            notes=notes,
        )
        wait_for(lambda: process.wait(1.0), "the tree has ended", 60)

    start("/bin/true", float("inf"))
    start("/bin/true", 0.0)
    with pytest.raises(Exception, match="could not be started"):
        start("/no/such/program", float("inf"))

    assert list(notes.iterdir()) == []
