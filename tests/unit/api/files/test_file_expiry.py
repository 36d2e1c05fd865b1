"""Expiry of uploaded files and of batch output."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from services.api.files import expiry
from services.api.files.expiry import FileExpiry, read_expiry
from services.contracts.batches.batches import ERROR_FILE, OUTPUT_FILE
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobStatus
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import DatasetRow, FileRow
from services.core.ids import new_id
from services.jobs.job import Job, NewJob
from services.jobs.queues import BATCH, TRAINING, QueueNames
from services.jobs.store import create_job, move_job

HOUR = 3600.0
NAMES = ("expires_after", "expires_after[anchor]", "expires_after[seconds]")


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path)


def store(database: Database, artifacts: Artifacts, expires_at: float | None) -> str:
    """An uploaded file."""
    file_id = new_id("file")
    path = artifacts.file(file_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    content = {"filename": "a.jsonl", "purpose": "batch", "bytes": 2, "sha256": "0" * 64}
    with database.write() as session:
        session.add(FileRow(id=file_id, created_at=0.0, expires_at=expires_at, **content))
    return file_id


def stored(database: Database, artifacts: Artifacts) -> set[str]:
    """Files with both a row and content."""
    with database.read() as session:
        rows = set(session.scalars(select(FileRow.id)))
    assert rows == {path.name for path in artifacts.file("x").parent.iterdir()}
    return rows


def job(database: Database, kind: str, queues: QueueNames, **request: Any) -> Job:
    with database.write() as session:
        prefix = {"batch": "batch", "fine_tuning": "ftjob"}[kind]
        new = NewJob(new_id(prefix), kind, queues.work, queues.validation, request)
        return create_job(session, new)


def end(database: Database, ended: Job, hours_ago: float = 0.0) -> None:
    with database.write() as session:
        at = time.time() - hours_ago * HOUR
        move_job(session, ended, JobStatus.CANCELLED, "x", finished_at=at)


def test_expired_files_are_deleted_with_their_content(
    database: Database, artifacts: Artifacts
) -> None:
    kept = {store(database, artifacts, at) for at in (None, time.time() + HOUR)}
    store(database, artifacts, time.time() - 1)

    FileExpiry(artifacts).apply(database)

    assert stored(database, artifacts) == kept


def test_files_of_data_sets_do_not_delay_the_deletion_of_others(
    database: Database, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiry, "BATCH_SIZE", 1)
    registered = store(database, artifacts, time.time() - 2)
    with database.write() as session:
        columns: dict[str, Any] = {"description": "", "statistics": {}, "created_at": 0.0}
        session.add(DatasetRow(name="sums", file_id=registered, **columns))
    store(database, artifacts, time.time() - 1)

    FileExpiry(artifacts).apply(database)

    assert stored(database, artifacts) == {registered}


def test_a_file_in_use_is_deleted_once_its_job_has_ended(
    database: Database, artifacts: Artifacts
) -> None:
    needed = store(database, artifacts, time.time() - 1)
    running = job(database, "fine_tuning", TRAINING, training_file=needed)
    sweep = FileExpiry(artifacts)

    sweep.apply(database)
    assert stored(database, artifacts) == {needed}

    end(database, running)
    sweep.apply(database)
    assert stored(database, artifacts) == set()


@pytest.mark.parametrize(
    "request_of",
    [
        lambda file_id: {"file": file_id},
        lambda file_id: {"training_files": ["file-other", file_id]},
        lambda file_id: {"datasets": [{"file": file_id, "weight": 1.0}]},
        lambda file_id: {"benchmarks": [{"benchmark": "gsm8k", "file": file_id}]},
        lambda file_id: {"method": {"online": {"rewards": [{"held_out": file_id}]}}},
    ],
    ids=["file", "training_files", "datasets", "benchmarks", "deeper"],
)
def test_a_file_is_kept_wherever_an_unfinished_job_names_it(
    database: Database, artifacts: Artifacts, request_of: Callable[[str], dict[str, Any]]
) -> None:
    needed = store(database, artifacts, time.time() - 1)
    store(database, artifacts, time.time() - 1)
    job(database, "fine_tuning", TRAINING, **request_of(needed))

    FileExpiry(artifacts).apply(database)

    assert stored(database, artifacts) == {needed}


@pytest.mark.parametrize(("hours_ago", "left"), [(0.5, 2), (1.5, 0), (500.0, 0)])
def test_batch_output_expires_after_the_end_of_the_batch(
    database: Database, artifacts: Artifacts, hours_ago: float, left: int
) -> None:
    batch = job(
        database,
        "batch",
        BATCH,
        input_file_id="file-1",
        endpoint="/v1/chat/completions",
        completion_window="24h",
        output_expires_after={"anchor": "created_at", "seconds": 3600},
    )
    folder = artifacts.job(batch.id)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (OUTPUT_FILE, ERROR_FILE, "rows.jsonl"):
        (folder / name).write_text("{}")
    sweep = FileExpiry(artifacts)
    sweep.apply(database)
    end(database, batch, hours_ago)

    (sweep if hours_ago < 2 else FileExpiry(artifacts)).apply(database)

    assert len([path for path in folder.iterdir() if path.name != "rows.jsonl"]) == left
    assert (folder / "rows.jsonl").exists()


def test_both_form_encodings_of_a_policy_are_accepted() -> None:
    bracketed = read_expiry(dict(zip(NAMES, (b"", b"created_at", b"7200"), strict=True)))
    whole = b'{"anchor": "created_at", "seconds": 7200}'

    assert bracketed is not None
    assert bracketed.seconds == 7200
    assert read_expiry(dict(zip(NAMES, (whole, b"", b""), strict=True))) == bracketed
    assert read_expiry(dict.fromkeys(NAMES, b"")) is None


@pytest.mark.parametrize(
    "parts",
    [
        (b"", b"created_at", b""),
        (b"", b"", b"3600"),
        (b"", b"created_at", b"3599"),
        (b"", b"last_active_at", b"3600"),
        (b"", b"created_at", b"soon"),
        (b"7200", b"", b""),
        (b"\xff{", b"", b""),
    ],
)
def test_an_invalid_policy_is_rejected(parts: tuple[bytes, bytes, bytes]) -> None:
    with pytest.raises(InvalidRequest, match="expires_after"):
        read_expiry(dict(zip(NAMES, parts, strict=True)))
