"""The training data of a model and of its ancestors."""

from typing import Any

from services.contracts.models.registered import DataFile, Lineage
from services.core.db.engine import Database
from services.core.db.tables import FileRow, ModelRow
from services.evaluator.evaluation.lineage import training_files
from tests.unit.models.registry.test_checkpoints import checkpoint


def trained(name: str, parent: str, **files: str) -> ModelRow:
    """A model that was trained here on files by their request fields."""
    data = {field: DataFile(file=file) for field, file in files.items()}
    lineage = Lineage(job_id="ftjob-1", parent=parent, files=data, library_versions={})
    shown = lineage.model_dump(mode="json")
    return ModelRow(id=name, kind="full", lineage=shown, created_at=0.0)


def found(database: Database, model: str) -> list[str]:
    with database.read() as session:
        return [row.id for row in training_files(session, model)]


def add(database: Database, *rows: ModelRow, files: tuple[str, ...] = ("old", "new")) -> None:
    made: dict[str, Any] = {"filename": "a.jsonl", "purpose": "fine-tune", "bytes": 1}
    with database.write() as session:
        session.add_all(FileRow(id=file, sha256="0", created_at=0.0, **made) for file in files)
        session.add_all(rows)


def test_files_of_ancestors_follow_those_of_the_model(database: Database) -> None:
    add(
        database,
        ModelRow(id="base", kind="full", hub_id="owner/base", created_at=0.0),
        trained("first", "base", training_file="old", validation_file="check"),
        trained("second", "first", training_file="new"),
        files=("old", "new", "check"),
    )

    assert found(database, "second") == ["new", "old"]
    assert found(database, "first") == ["old"]
    assert found(database, "base") == []
    assert found(database, "unknown") == []


def test_what_is_not_here_is_left_out(database: Database) -> None:
    add(
        database,
        trained(
            "a", "deleted", **{"training_files.0.file": "hf://x/y", "training_files.1.file": "new"}
        ),
    )

    assert found(database, "a") == ["new"]


def test_a_model_among_its_own_ancestors_ends_the_search(database: Database) -> None:
    add(database, trained("a", "b", training_file="old"), trained("b", "a", training_file="new"))

    assert found(database, "a") == ["old", "new"]


def test_a_checkpoint_has_the_files_of_its_job(database: Database) -> None:
    add(database, trained("first", "base", training_file="old"), files=("old", "file-1"))

    assert found(database, checkpoint(database, "first", "lora")) == ["file-1", "old"]
