"""Deleting finished jobs, on request and by retention."""

import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from services.api.jobs import removal
from services.api.jobs.removal import Retention, remove_job
from services.api.notes.service import create_note
from services.contracts.errors import Conflict, NotFound
from services.contracts.jobs import JobStatus
from services.contracts.notes import CreateNote
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.core.db.tables import (
    AttemptRow,
    CheckpointPermissionRow,
    CheckpointRow,
    EventRow,
    JobRow,
    ModelRow,
    NoteRow,
)
from services.core.ids import new_id
from services.jobs.attempts import begin_attempt
from services.jobs.job import Job, NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job, get_job, move_job

DAY = 86_400.0
TABLES = (
    *(JobRow, AttemptRow, EventRow, NoteRow, CheckpointRow, CheckpointPermissionRow),
    ModelRow,
)


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path)


@pytest.fixture
def database(tmp_path: Path) -> Database:
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    migrate(database)
    return database


def new_job(database: Database, artifacts: Artifacts, **request: Any) -> Job:
    with database.write() as session:
        job_id = new_id("ftjob")
        new = NewJob(job_id, "fine_tuning", TRAINING.work, TRAINING.validation, request)
        folder = artifacts.job(job_id)
        (folder / "output").mkdir(parents=True)
        return create_job(session, new)


def finished(database: Database, artifacts: Artifacts, *, days_ago: float = 0.0) -> Job:
    """A cancelled job with a checkpoint."""
    job = new_job(database, artifacts)
    at = time.time() - days_ago * DAY
    with database.write() as session:
        place = {"id": new_id("ftckpt"), "path": "output", "metrics": {}, "created_at": at}
        session.add(CheckpointRow(job_id=job.id, step=5, **place))
        return move_job(session, job, JobStatus.CANCELLED, "x", finished_at=at)


def register(database: Database, job: Job, name: str, base: str | None = None) -> None:
    with database.write() as session:
        row = ModelRow(
            id=name,
            kind="adapter" if base else "full",
            base=base,
            job_id=job.id,
            job_path="output",
            created_at=1.0,
        )
        session.add(row)


def give(database: Database, checkpoint: str) -> None:
    with database.write() as session:
        row = CheckpointPermissionRow(
            id=new_id("cp"), checkpoint=checkpoint, project_id="proj", created_at=1.0
        )
        session.add(row)


def remove(database: Database, artifacts: Artifacts, job: Job) -> Path:
    with database.write() as session:
        return remove_job(session, artifacts, job.id)


def left(database: Database) -> list[str]:
    with database.read() as session:
        return list(session.scalars(select(JobRow.id).order_by(JobRow.seq)))


def test_a_deleted_job_leaves_nothing(database: Database, artifacts: Artifacts) -> None:
    job = finished(database, artifacts)
    register(database, job, "ft:tiny")
    give(database, "ft:tiny")
    give(database, f"{job.id}:step-5")
    with database.write() as session:
        create_note(session, job.id, CreateNote(text="x"))
        begin_attempt(session, job, "host", ["GPU-a"])

    assert remove(database, artifacts, job) == artifacts.job(job.id)

    with database.read() as session:
        for table in TABLES:
            assert session.scalar(select(func.count()).select_from(table)) == 0
        with pytest.raises(NotFound):
            get_job(session, job.id)


def test_an_unfinished_job_is_kept(database: Database, artifacts: Artifacts) -> None:
    job = new_job(database, artifacts)

    with pytest.raises(Conflict, match="cancel it first"):
        remove(database, artifacts, job)


@pytest.mark.parametrize("named", ["ft:tiny", "checkpoint"])
def test_a_job_whose_model_another_job_needs_is_kept(
    database: Database, artifacts: Artifacts, named: str
) -> None:
    job = finished(database, artifacts)
    register(database, job, "ft:tiny")
    new_job(database, artifacts, model=f"{job.id}:step-5" if named == "checkpoint" else named)

    with pytest.raises(Conflict) as caught:
        remove(database, artifacts, job)

    assert caught.value.code == "model_in_use"
    assert len(left(database)) == 2


def test_old_jobs_are_deleted_with_their_folders(database: Database, artifacts: Artifacts) -> None:
    old, new = finished(database, artifacts, days_ago=8), finished(database, artifacts)
    running = new_job(database, artifacts)

    assert Retention(artifacts, days=7).apply(database) == 1

    assert left(database) == [new.id, running.id]
    assert not artifacts.job(old.id).exists()
    assert artifacts.job(new.id).exists()


def test_only_the_newest_jobs_are_kept(database: Database, artifacts: Artifacts) -> None:
    jobs = [finished(database, artifacts, days_ago=5 - n) for n in range(4)]

    Retention(artifacts, jobs=2).apply(database)

    assert left(database) == [job.id for job in jobs[2:]]


def test_retention_spares_jobs_with_a_model_and_those_that_others_need(
    database: Database, artifacts: Artifacts
) -> None:
    with_model, needed = (finished(database, artifacts, days_ago=9) for _ in range(2))
    register(database, with_model, "ft:tiny")
    user = new_job(database, artifacts, model=f"{needed.id}:step-5")

    assert Retention(artifacts, days=1, jobs=0).apply(database) == 0

    assert left(database) == [with_model.id, needed.id, user.id]


def test_kept_bases_of_adapters_do_not_block_the_deletion_of_later_jobs(
    database: Database, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "MAX_JOBS_PER_ROUND", 1)
    base, tuned, _later = (finished(database, artifacts, days_ago=9 - n) for n in range(3))
    register(database, tuned, "adapter", base=f"{base.id}:step-5")

    assert Retention(artifacts, days=1).apply(database) == 1

    assert left(database) == [base.id, tuned.id]


def test_a_job_that_another_gateway_has_deleted_does_not_stop_retention(
    database: Database, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [finished(database, artifacts, days_ago=9) for _ in range(2)]

    def raced(session: Session, artifacts: Artifacts, job_id: str) -> Path:
        if job_id == jobs[0].id:
            raise NotFound("deleted meanwhile")
        return remove_job(session, artifacts, job_id)

    monkeypatch.setattr(removal, "remove_job", raced)

    assert Retention(artifacts, days=1).apply(database) == 1
    assert left(database) == [jobs[0].id]


def test_without_limits_nothing_is_deleted(database: Database, artifacts: Artifacts) -> None:
    job = finished(database, artifacts)
    with database.write() as session:
        session.execute(update(JobRow).values(finished_at=0.0))

    assert Retention(artifacts).apply(database) == 0
    assert left(database) == [job.id]
