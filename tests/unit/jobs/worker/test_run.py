"""One claim with a real child, a real database and the real watchdog."""

import errno
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from services.contracts.jobs import JobStatus
from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.core.process.supervised import lease_clock
from services.jobs.claims import Claim
from services.jobs.events import events_after
from services.jobs.job import Job
from services.jobs.pause import request_pause
from services.jobs.worker.handler import Launch
from services.jobs.worker.run import ClaimRun
from services.jobs.worker.settings import WorkerSettings
from services.jobs.worker.shutdown import Shutdown
from tests.unit.jobs.machine import claim, cpu_worker, queued_job, read

FINISH = "import pathlib; pathlib.Path('result.json').write_text('{\"status\": \"succeeded\"}')"


class Handler:
    """A child that runs a script; ``away`` times the database is lost at the very end."""

    def __init__(self, script: str, away: int = 0, *, saves_on_pause: bool = False) -> None:
        self.script = script
        self.away = away
        self.saves_on_pause = saves_on_pause

    def validation(self, *_: Any) -> None: ...

    def work(self, *_: Any) -> Launch:
        return Launch([sys.executable, "-c", self.script], saves_on_pause=self.saves_on_pause)

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        if self.away:
            self.away -= 1
            raise OperationalError("UPDATE", {}, RuntimeError("the database is restarting"))
        return result


@pytest.fixture
def held(database: Database) -> Claim:
    queued_job(database)
    return claim(database, cpu_worker())


def run(
    database: Database,
    held: Claim,
    home: Path,
    handler: Handler,
    lease_left: float = 60.0,
    pause_seconds: float = 600.0,
    cpu_slots: int = 1,
) -> Job:
    settings = WorkerSettings(
        home=home, grace_seconds=0.5, pause_seconds=pause_seconds, cpu_slots=cpu_slots
    )
    ClaimRun(
        held,
        deadline=lease_clock() + lease_left,
        database=database,
        handler=handler,
        settings=settings,
        job_dir=home / "job",
        notes=home / "notes",
        stopping=Shutdown(),
    ).run()
    return read(database, held.job.id)


def leave(home: Path, **result: Any) -> None:
    (home / "job").mkdir()
    (home / "job" / "result.json").write_text(json.dumps(result))


def test_a_result_left_by_a_lost_worker_is_used(
    database: Database, held: Claim, tmp_path: Path
) -> None:
    leave(tmp_path, status="succeeded", value=7)

    job = run(database, held, tmp_path, Handler("raise SystemExit('never')"))

    assert job.result == {"status": "succeeded", "value": 7}


def test_a_failure_left_by_a_lost_worker_is_ignored(
    database: Database, held: Claim, tmp_path: Path
) -> None:
    leave(tmp_path, status="failed", error={"code": "engine_died", "message": "killed with it"})

    assert run(database, held, tmp_path, Handler(FINISH)).status is JobStatus.SUCCEEDED


def test_an_outcome_is_recorded_when_the_database_is_back(
    database: Database, held: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.jobs.worker.run.CONTROL_SECONDS", 0.05)

    job = run(database, held, tmp_path, Handler(FINISH, away=3))

    assert job.status is JobStatus.SUCCEEDED


def test_a_job_whose_lease_expired_is_requeued(
    database: Database, held: Claim, tmp_path: Path
) -> None:
    job = run(database, held, tmp_path, Handler(FINISH), lease_left=-1.0)

    assert (job.status, job.losses) == (JobStatus.QUEUED, 0)


def test_a_child_sees_neither_database_nor_broker_nor_keys(
    database: Database, held: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPER_ENDPOINT_KEYS", json.dumps({"https://x": "secret-of-the-operator"}))
    for name in ("TEMPER_DATABASE_URL", "TEMPER_BROKER_URL", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "secret-of-the-operator")
    script = "import json, os; json.dump(dict(os.environ), open('environment.json', 'w'))"

    run(database, held, tmp_path, Handler(f"{script}; {FINISH}"))

    assert "secret-of-the-operator" not in (tmp_path / "job" / "environment.json").read_text()


@pytest.mark.parametrize(("slots", "threads"), [(1, "all"), (3, "2"), (64, "1")])
def test_jobs_in_several_cpu_slots_share_the_cores(
    slots: int,
    threads: str,
    database: Database,
    held: Claim,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("services.jobs.worker.run.usable_cores", lambda: 8)
    threads_of = "os.environ.get('OMP_NUM_THREADS', 'all')"
    script = f"import os, pathlib; pathlib.Path('threads').write_text({threads_of})"

    run(database, held, tmp_path, Handler(f"{script}; {FINISH}"), cpu_slots=slots)

    assert (tmp_path / "job" / "threads").read_text() == threads


def test_a_child_that_closes_its_output_is_followed_to_its_end(
    database: Database, held: Claim, tmp_path: Path
) -> None:
    flood = (
        "import os; os.close(1); os.close(2); file = open('reports.jsonl', 'w')\n"
        'for n in range(5000): file.write(\'{"type": "message", "message": "%d"}\\n\' % n)\n'
        f"file.close()\n{FINISH}"
    )

    assert run(database, held, tmp_path, Handler(flood)).status is JobStatus.SUCCEEDED

    with database.read() as session:
        events = events_after(session, held.job.id, 0, 10_000)
    assert [event.message for event in events if event.message.isdigit()] == [
        str(number) for number in range(5000)
    ]


def test_a_disk_that_is_full_before_the_child_starts_is_the_cause(
    database: Database, held: Claim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> Launch:
        raise OSError(errno.ENOSPC, "No space left on device")

    handler = Handler(FINISH)
    monkeypatch.setattr(handler, "work", full)

    job = run(database, held, tmp_path, handler)

    assert job.error is not None
    assert job.error.code == "storage_full"


@pytest.fixture
def asked(database: Database, held: Claim, monkeypatch: pytest.MonkeyPatch) -> Claim:
    """A claim whose job is to be paused, by a worker that looks often."""
    monkeypatch.setattr("services.jobs.worker.run.CONTROL_SECONDS", 0.05)
    with database.write() as session:
        request_pause(session, held.job.id)
    return held


SLEEP = "import time; time.sleep(600)"
SAVE = (
    "import os, pathlib, time\n"
    "while not os.path.exists('pause.request'): time.sleep(0.01)\n"
    "pathlib.Path('saved').touch()\n"
    "pathlib.Path('result.json').write_text('{\"status\": \"paused\"}')"
)


def test_a_child_that_saves_on_pause_ends_by_itself(
    database: Database, asked: Claim, tmp_path: Path
) -> None:
    job = run(database, asked, tmp_path, Handler(SAVE, saves_on_pause=True))

    assert job.status is JobStatus.PAUSED
    assert (tmp_path / "job" / "saved").exists()


@pytest.fixture
def overdue(database: Database, held: Claim, monkeypatch: pytest.MonkeyPatch) -> Claim:
    """A claim whose job is past its deadline, by a worker that looks often."""
    monkeypatch.setattr("services.jobs.worker.run.CONTROL_SECONDS", 0.05)
    with database.write() as session:
        session.execute(update(JobRow).values(deadline_at=1.0))
    return held


def test_at_its_deadline_a_job_saves_and_fails(
    database: Database, overdue: Claim, tmp_path: Path
) -> None:
    job = run(database, overdue, tmp_path, Handler(SAVE, saves_on_pause=True))

    assert job.error is not None
    assert (job.status, job.error.code) == (JobStatus.FAILED, "deadline_exceeded")
    assert (tmp_path / "job" / "saved").exists()


def test_a_child_that_saves_nothing_is_stopped_at_its_deadline(
    database: Database, overdue: Claim, tmp_path: Path
) -> None:
    job = run(database, overdue, tmp_path, Handler(SLEEP))

    assert job.error is not None
    assert (job.status, job.error.code) == (JobStatus.FAILED, "deadline_exceeded")


def test_a_child_that_cannot_save_is_stopped(
    database: Database, asked: Claim, tmp_path: Path
) -> None:
    assert run(database, asked, tmp_path, Handler(SLEEP)).status is JobStatus.PAUSED


def test_a_child_that_never_saves_is_stopped(
    database: Database, asked: Claim, tmp_path: Path
) -> None:
    deaf = Handler(SLEEP, saves_on_pause=True)

    assert run(database, asked, tmp_path, deaf, pause_seconds=0.2).status is JobStatus.PAUSED


def test_a_request_of_an_earlier_attempt_does_not_pause_the_next(
    database: Database, held: Claim, tmp_path: Path
) -> None:
    leave(tmp_path, status="paused")
    (tmp_path / "job" / "pause.request").touch()
    script = f"import os; assert not os.path.exists('pause.request'); {FINISH}"

    handler = Handler(script, saves_on_pause=True)

    assert run(database, held, tmp_path, handler).status is JobStatus.SUCCEEDED
