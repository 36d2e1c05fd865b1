"""A request with several files, looked up: specs and lineage."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobKind
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.core.db.tables import FileRow, ModelRow
from services.jobs.job import NewJob
from services.jobs.store import create_job
from services.trainer.fine_tune import FineTune, look_up
from services.trainer.offline.build_spec import training_spec, validation_spec

HUB = "hf://datasets/lab/rows"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    migrate(database)
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", hub_id="lab/base", created_at=0.0))
        for name in ("one", "two"):
            session.add(
                FileRow(
                    id=f"file-{name}",
                    filename=f"{name}.jsonl",
                    purpose="fine-tune",
                    bytes=1,
                    sha256=name,
                    created_at=0.0,
                )
            )
    yield database
    database.close()


def looked_up(database: Database, home: Path, **fields: Any) -> FineTune:
    body = CreateFineTuningJob.model_validate(
        {"model": "base", "method": {"type": "supervised"}, **fields}
    )
    with database.write() as session:
        new = NewJob.of(JobKind.FINE_TUNING, body, 0)
        job = create_job(session, new)
    with database.read() as session:
        return look_up(session, job, home / "models", Artifacts(home))


def test_the_lineage_names_every_file_with_its_content_and_samples(
    database: Database, tmp_path: Path
) -> None:
    tune = looked_up(
        database,
        tmp_path,
        training_files=[{"file": HUB}, {"file": "file-one", "num_samples": 5}],
        validation_files={"math": "file-two"},
    )

    files = {name: file.model_dump() for name, file in tune.lineage_files.items()}
    assert files == {
        "training_files.0.file": {"file": HUB, "sha256": None, "num_samples": None},
        "training_files.1.file": {"file": "file-one", "sha256": "one", "num_samples": 5},
        "validation_files.math": {"file": "file-two", "sha256": "two", "num_samples": None},
    }


def test_a_mixture_may_begin_with_a_dataset_of_a_hub(database: Database, tmp_path: Path) -> None:
    tune = looked_up(database, tmp_path, training_files=[{"file": HUB}, {"file": "file-one"}])

    spec = training_spec(tune, Artifacts(tmp_path))
    validation = validation_spec(tune, Artifacts(tmp_path))

    (second,) = spec.mixture.sources
    assert (spec.training_data.hub_name, spec.training_data.param) == (
        "lab/rows",
        "training_files.0.file",
    )
    assert (second.label, second.param) == ("one.jsonl", "training_files.1.file")
    assert validation is not None
    assert list(validation.uploaded) == ["training_files.1.file"]
    assert not validation.all_uploaded


def test_pissa_is_refused_for_an_adapter_that_is_trained_further(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "models" / "tuned").mkdir(parents=True)
    with database.write() as session:
        session.add(
            ModelRow(id="tuned", kind="adapter", base="base", folder="tuned", created_at=0.0)
        )
    settings = {"hyperparameters": {"llamafactory": {"pissa_init": True}}}
    method = {"type": "supervised", "supervised": settings}

    again = looked_up(database, tmp_path, model="tuned", training_file="file-one", method=method)
    first = looked_up(database, tmp_path, training_file="file-one", method=method)

    with pytest.raises(InvalidRequest, match="merge it first"):
        training_spec(again, Artifacts(tmp_path))
    assert training_spec(first, Artifacts(tmp_path)).arguments == {"pissa_init": True}
