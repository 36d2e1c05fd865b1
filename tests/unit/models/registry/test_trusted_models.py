"""Whose own code may run: the operator names places, and what is trained from there follows."""

import json
from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.models.registered import Lineage
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import ModelRow
from services.jobs.job import NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job
from services.models.registry import ResolvedModel, locate_model, resolve_model

JOB = f"ftjob-{'1' * 24}"


@pytest.fixture(autouse=True)
def models(database: Database, tmp_path: Path) -> None:
    """A folder with code, a model trained from it, and two revisions of a repository."""
    trained = Artifacts(tmp_path).job(JOB) / "output"
    for folder in (tmp_path / "models" / "lab" / "own", trained):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps({"auto_map": {"AutoModel": "m.M"}}))
    lineage = Lineage(job_id=JOB, parent="own", library_versions={})
    request = {"model": "own", "training_file": "file-1"}
    with database.write() as session:
        create_job(session, NewJob(JOB, "fine_tuning", TRAINING.work, TRAINING.validation, request))
        session.add(ModelRow(id="own", kind="full", folder="lab/own", created_at=0.0))
        session.add(ModelRow(id="new", kind="full", hub_id="lab/own", created_at=0.0))
        session.add(
            ModelRow(id="old", kind="full", hub_id="lab/own", revision="abc", created_at=0.0)
        )
        session.add(
            ModelRow(
                id="ft:own",
                kind="full",
                job_id=JOB,
                job_path="output",
                lineage=lineage.model_dump(mode="json"),
                created_at=0.0,
            )
        )


def resolved(database: Database, home: Path, name: str, *trusted: str) -> ResolvedModel:
    with database.read() as session:
        return resolve_model(session, name, home / "models", Artifacts(home), trusted)


@pytest.mark.parametrize("name", ["own", "ft:own"])
def test_code_is_refused_by_default_naming_what_the_setting_lacks(
    database: Database, tmp_path: Path, name: str
) -> None:
    with pytest.raises(InvalidRequest, match=r"'lab/own' is not in TEMPER_TRUSTED_MODELS"):
        resolved(database, tmp_path, name)


@pytest.mark.parametrize("name", ["own", "ft:own"])
def test_a_trusted_folder_and_what_was_trained_from_it_may_run_their_code(
    database: Database, tmp_path: Path, name: str
) -> None:
    assert resolved(database, tmp_path, name, "lab/own").weights.trusted


@pytest.mark.parametrize("entry", ["own", "hub:lab/own", "lab"])
def test_neither_a_registered_name_nor_a_repository_stands_for_a_folder(
    database: Database, tmp_path: Path, entry: str
) -> None:
    with pytest.raises(InvalidRequest, match="TEMPER_TRUSTED_MODELS"):
        resolved(database, tmp_path, "own", entry)


@pytest.mark.parametrize(
    ("entry", "trusted"),
    [
        ("hub:lab/own", {"new", "old"}),
        ("hub:lab/own@abc", {"old"}),
        ("hub:lab/own@main", {"new"}),
        ("lab/own", set()),
        ("new", set()),
    ],
)
def test_a_repository_is_trusted_whole_or_at_a_revision(
    database: Database, tmp_path: Path, entry: str, trusted: set[str]
) -> None:
    models = {name: resolved(database, tmp_path, name, entry) for name in ("new", "old")}

    assert {name for name, model in models.items() if model.weights.trusted} == trusted


def test_files_of_a_model_with_code_can_be_located_without_trust(
    database: Database, tmp_path: Path
) -> None:
    with database.read() as session:
        model = locate_model(session, "own", tmp_path / "models", Artifacts(tmp_path))

    assert model.weights.path == tmp_path / "models" / "lab" / "own"
    assert not model.weights.trusted


def test_a_model_whose_origin_was_deleted_is_not_trusted(
    database: Database, tmp_path: Path
) -> None:
    with database.write() as session:
        session.delete(session.query(ModelRow).filter_by(id="own").one())

    with pytest.raises(InvalidRequest, match="TEMPER_TRUSTED_MODELS"):
        resolved(database, tmp_path, "ft:own", "lab/own")
