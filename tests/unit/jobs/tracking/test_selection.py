"""Which trackers a job has."""

import sys
from pathlib import Path
from typing import Any

import pytest

from services.core.db.engine import Database
from services.jobs.job import NewJob
from services.jobs.store import create_job
from services.jobs.tracking.selection import TrackerName, TrackerSelection, select_trackers
from tests.support.database import database, migrated
from tests.support.extension import write_wheel
from tests.support.runtime.stand_in import add_runtime

__all__ = ["database", "migrated"]

WANDB = {"type": "wandb", "wandb": {"project": "p", "entity": "e", "name": "n", "tags": ["t"]}}


@pytest.fixture
def runtimes(tmp_path: Path) -> Path:
    add_runtime(tmp_path / "runtimes", "tracking")
    return tmp_path / "runtimes"


def selected(
    database: Database,
    runtimes: Path,
    *names: str,
    environ: dict[str, str] | None = None,
    **request: Any,
) -> TrackerSelection:
    queue = "training"
    new = NewJob("ftjob-1", "fine_tuning", queue, f"{queue}.validation", {"model": "m", **request})
    with database.write() as session:
        job = create_job(session, new)
    home = runtimes.parent
    return select_trackers(
        job, names, job_dir=home / "job", home=home, runtimes=runtimes, environ=environ or {}
    )


def test_every_job_has_tensorboard_files(database: Database, tmp_path: Path) -> None:
    selection = selected(database, tmp_path / "none")

    assert [spec.name for spec in selection.specs] == ["tensorboard"]
    assert selection.warnings == []


def test_a_tracker_of_another_package_runs_in_the_core_environment(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(write_wheel(tmp_path)))
    environ = {"LINES_KEY": "k", "TEMPER_X": "t"}

    selection = selected(database, tmp_path / "none", "lines", environ=environ)

    assert selection.warnings == []
    found = selection.specs[1]
    assert (found.name, found.target) == ("lines", "extension_example:LinesTracker")
    assert (found.python, found.environment) == (Path(sys.executable), {"LINES_KEY": "k"})


def test_a_tracker_whose_package_is_gone_is_a_warning(database: Database, tmp_path: Path) -> None:
    selection = selected(database, tmp_path / "none", "lines")

    assert selection.warnings == ["lines does not track this job: its extension is not installed"]


def test_a_tracker_is_shown_its_own_variables_alone(database: Database, runtimes: Path) -> None:
    environ = {"WANDB_API_KEY": "w", "MLFLOW_TRACKING_URI": "http://m", "TEMPER_X": "t"}

    selection = selected(database, runtimes, TrackerName.WANDB, TrackerName.MLFLOW, environ=environ)

    by_name = {spec.name: dict(spec.environment) for spec in selection.specs}
    data = runtimes.parent / "trackers"
    assert by_name == {
        "tensorboard": {},
        "wandb": {"WANDB_API_KEY": "w", "WANDB_DIR": str(data / "wandb")},
        "mlflow": {"MLFLOW_TRACKING_URI": "http://m"},
    }
    assert "w" not in repr(selection).split("'")


def test_a_client_names_project_entity_name_and_tags(database: Database, runtimes: Path) -> None:
    selection = selected(
        database, runtimes, environ={"WANDB_API_KEY": "w"}, integrations=[WANDB], suffix="mine"
    )

    tensorboard, wandb = selection.specs
    run = wandb.run
    assert (run.project, run.entity, run.name, run.tags) == ("p", "e", "n", ("t",))
    assert (tensorboard.run.name, tensorboard.run.project) == ("mine", None)
    assert "integrations" not in wandb.config


def test_an_integration_that_the_operator_has_not_set_up_is_a_warning(
    database: Database, runtimes: Path
) -> None:
    selection = selected(database, runtimes, integrations=[WANDB])

    assert [spec.name for spec in selection.specs] == ["tensorboard"]
    assert selection.warnings == ["W&B is not set up here: the job's integration has no effect"]


def test_a_missing_runtime_is_a_warning(database: Database, tmp_path: Path) -> None:
    selection = selected(database, tmp_path, TrackerName.SWANLAB)

    assert len(selection.specs) == 1
    assert "swanlab does not track this job: runtime 'tracking' is not" in selection.warnings[0]
