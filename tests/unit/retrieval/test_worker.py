"""The messages and commands that an indexing job's children get."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from services.api.indexing.routes import create_indexing_job
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.contracts.models.registered import ModelKind
from services.contracts.retrieval.index_messages import MESSAGE_FILE, BuildIndex
from services.contracts.retrieval.indexes import CreateIndexingJob, IndexMode
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import FileRow, ModelRow
from services.core.process.runtimes import RuntimeMissing
from services.datasets.validate import SPEC
from services.jobs.claims import Claim, ClaimStage
from services.jobs.job import Job
from services.jobs.worker.settings import WorkerSettings
from services.retrieval.worker import IndexingHandler
from tests.support.database import database, migrated

__all__ = ["database", "migrated"]  # a fixture


@pytest.fixture
def handler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> IndexingHandler:
    monkeypatch.delenv("TEMPER_RUNTIMES", raising=False)
    return IndexingHandler(WorkerSettings(home=tmp_path), tmp_path / "indexes")


@pytest.fixture
def job_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    return folder


def add_model(database: Database, home: Path, **fields: Any) -> None:
    (home / "models" / "e5").mkdir(parents=True)
    row: dict[str, Any] = {"id": "e5", "kind": ModelKind.FULL.value, "created_at": time.time()}
    with database.write() as session:
        session.add(ModelRow(**row, **fields))


def new_job(database: Database, **fields: Any) -> Job:
    with database.write() as session:
        session.add(
            FileRow(
                id="file-1",
                filename="corpus.jsonl",
                purpose="user_data",
                bytes=1,
                sha256="0",
                created_at=0.0,
            )
        )
        body = CreateIndexingJob(index="wiki", file="file-1", **fields)
        return create_indexing_job(session, body, ApiSettings())


def order_of(handler: IndexingHandler, database: Database, job: Job, job_dir: Path) -> BuildIndex:
    handler.work(database, Claim(job, ClaimStage.WORK), job_dir)
    return BuildIndex.model_validate_json((job_dir / MESSAGE_FILE).read_bytes())


def test_the_message_names_the_stored_file_and_the_job(
    handler: IndexingHandler, database: Database, job_dir: Path, tmp_path: Path
) -> None:
    job = new_job(database, language="german")

    order = order_of(handler, database, job, job_dir)

    assert (order.index, order.build, order.corpus_name) == ("wiki", job.id, "corpus.jsonl")
    assert order.corpus == Artifacts(tmp_path).file("file-1")
    assert order.specification.language == "german"
    assert job.gpus == 0


def test_the_child_gets_the_index_folder(
    handler: IndexingHandler, database: Database, job_dir: Path, tmp_path: Path
) -> None:
    launch = handler.work(database, Claim(new_job(database), ClaimStage.WORK), job_dir)

    assert launch.environment["TEMPER_RETRIEVAL_INDEXES"] == str(tmp_path / "indexes")
    assert launch.environment["TEMPER_RUNTIMES"] == str(tmp_path / "runtimes")


@pytest.mark.parametrize(
    ("source", "encoder"), [({"folder": "e5"}, "models/e5"), ({"hub_id": "me/e5"}, "me/e5")]
)
def test_a_registered_model_encodes(
    handler: IndexingHandler,
    database: Database,
    job_dir: Path,
    tmp_path: Path,
    source: dict[str, str],
    encoder: str,
) -> None:
    add_model(database, tmp_path, **source)
    job = new_job(database, mode=IndexMode.DENSE, encoder="e5")

    order = order_of(handler, database, job, job_dir)

    expected = str(tmp_path / encoder) if "folder" in source else encoder
    assert order.specification.encoder == expected
    assert job.gpus is None


def test_a_model_pinned_to_a_revision_is_refused(
    handler: IndexingHandler, database: Database, job_dir: Path, tmp_path: Path
) -> None:
    add_model(database, tmp_path, hub_id="me/e5", revision="v1")
    job = new_job(database, mode=IndexMode.DENSE, encoder="e5")

    with pytest.raises(InvalidRequest, match="revision") as caught:
        order_of(handler, database, job, job_dir)

    assert caught.value.param == "encoder"


def test_validation_reports_the_uploaded_file_name(
    handler: IndexingHandler, database: Database, job_dir: Path
) -> None:
    assert handler.validation(database, new_job(database), job_dir) is not None

    spec = json.loads((job_dir / SPEC).read_bytes())
    assert spec["file"]["filename"] == "corpus.jsonl"


def test_a_missing_encoder_runtime_fails_before_reading(
    handler: IndexingHandler, database: Database, job_dir: Path
) -> None:
    with pytest.raises(RuntimeMissing, match="encoder"):
        handler.validation(database, new_job(database, mode=IndexMode.HYBRID), job_dir)


def test_an_encoder_without_vectors_is_refused() -> None:
    with pytest.raises(ValidationError, match="needs mode dense or hybrid"):
        CreateIndexingJob(index="wiki", file="file-1", encoder="e5")
