"""A worker that is told to stop while the child of a claim runs."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.process.supervised import lease_clock
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.pause import request_pause
from services.jobs.store import request_cancel
from services.jobs.worker import shutdown
from services.jobs.worker.handler import Launch
from services.jobs.worker.run import ClaimRun
from services.jobs.worker.settings import WorkerSettings
from services.jobs.worker.shutdown import Shutdown
from tests.unit.jobs.machine import claim, cpu_worker, queued_job, read

LONG = 600.0
"""More seconds than a test may take: what waits so long has failed."""
SAVE = """
import os, pathlib, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
while not os.path.exists('pause.request'): time.sleep(0.01)
if signal.sigtimedwait([signal.SIGTERM], 1.0): sys.exit('stopped while it saved')
pathlib.Path('saved').touch()
pathlib.Path('result.json').write_text('{"status": "paused"}')
"""
DEAF = "import time; time.sleep(600)"


class Handler:
    """A child that runs a script."""

    def __init__(self, script: str, *, saves_on_pause: bool = True) -> None:
        self.launch = Launch([sys.executable, "-c", script], saves_on_pause=saves_on_pause)

    def validation(self, *_: Any) -> None: ...

    def work(self, *_: Any) -> Launch:
        return self.launch

    def complete(self, *_: Any) -> dict[str, Any]:
        return {}


@pytest.fixture
def held(database: Database, monkeypatch: pytest.MonkeyPatch) -> Claim:
    """A claim of a worker that looks often."""
    monkeypatch.setattr("services.jobs.worker.run.CONTROL_SECONDS", 0.05)
    queued_job(database)
    return claim(database, cpu_worker())


@pytest.fixture
def stopping() -> Shutdown:
    """A shutdown that has begun."""
    stopping = Shutdown()
    stopping.on_signal()
    return stopping


def run(
    database: Database,
    held: Claim,
    home: Path,
    handler: Handler,
    stopping: Shutdown,
    grace_seconds: float = LONG,
) -> Job:
    ClaimRun(
        held,
        deadline=lease_clock() + 60.0,
        database=database,
        handler=handler,
        settings=WorkerSettings(home=home, grace_seconds=grace_seconds),
        job_dir=home / "job",
        notes=home / "notes",
        stopping=stopping,
    ).run()
    return read(database, held.job.id)


def test_a_child_saves_before_the_worker_stops_and_its_job_is_queued(
    database: Database, held: Claim, tmp_path: Path, stopping: Shutdown
) -> None:
    job = run(database, held, tmp_path, Handler(SAVE), stopping)

    assert (job.status, job.owner, job.losses) == (JobStatus.QUEUED, None, 0)
    assert (tmp_path / "job" / "saved").exists()


def test_a_child_that_does_not_save_in_time_is_stopped(
    database: Database, held: Claim, tmp_path: Path, stopping: Shutdown
) -> None:
    job = run(database, held, tmp_path, Handler(DEAF), stopping, grace_seconds=0.2)

    assert (job.status, job.losses) == (JobStatus.QUEUED, 0)


def test_a_child_that_cannot_save_is_stopped_at_once(
    database: Database, held: Claim, tmp_path: Path, stopping: Shutdown
) -> None:
    cannot = Handler(DEAF, saves_on_pause=False)

    assert run(database, held, tmp_path, cannot, stopping).status is JobStatus.QUEUED


def test_a_second_signal_stops_a_child_that_is_still_saving(
    database: Database, held: Claim, tmp_path: Path, stopping: Shutdown
) -> None:
    stopping.on_signal()

    assert run(database, held, tmp_path, Handler(DEAF), stopping).status is JobStatus.QUEUED


def test_a_job_that_is_to_be_paused_saves_and_stays_paused(
    database: Database, held: Claim, tmp_path: Path, stopping: Shutdown
) -> None:
    with database.write() as session:
        request_pause(session, held.job.id)

    assert run(database, held, tmp_path, Handler(SAVE), stopping).status is JobStatus.PAUSED
    assert (tmp_path / "job" / "saved").exists()


def test_a_cancelled_job_is_not_waited_for(
    database: Database, held: Claim, tmp_path: Path, stopping: Shutdown
) -> None:
    with database.write() as session:
        request_cancel(session, held.job.id)

    assert run(database, held, tmp_path, Handler(DEAF), stopping).status is JobStatus.CANCELLED


def test_a_full_disk_stops_a_child_that_cannot_be_asked(
    database: Database,
    held: Claim,
    tmp_path: Path,
    stopping: Shutdown,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(_: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("services.jobs.worker.run.request_pause_of", full)

    assert run(database, held, tmp_path, Handler(DEAF), stopping).status is JobStatus.QUEUED


@pytest.fixture(scope="module")
def clock() -> Iterator[list[float]]:
    """The time that a shutdown sees."""
    with pytest.MonkeyPatch.context() as patch:
        now = [0.0]
        patch.setattr(shutdown, "time", SimpleNamespace(monotonic=lambda: now[0]))
        yield now


@given(
    began=st.floats(0, 1e6),
    repeated=st.floats(0, 1e3),
    waited=st.floats(0, 1e3),
    seconds=st.floats(0.1, 600),
)
def test_all_children_have_the_same_time_however_late_they_are_asked(
    clock: list[float], began: float, repeated: float, waited: float, seconds: float
) -> None:
    stopping = Shutdown()
    assert not stopping.is_over(seconds)
    clock[0] = began
    stopping.on_signal()
    clock[0] = began + repeated
    stopping.set()  # as the end of the worker does
    clock[0] = began + max(repeated, waited)

    assert stopping.is_over(seconds) == (clock[0] - began >= seconds)
    stopping.on_signal()
    assert stopping.is_over(seconds)
