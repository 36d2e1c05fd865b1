"""Checkpoints as models."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select

from services.api.models.service import register_model
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.models.registered import ModelKind, RegisterModel
from services.core.artifacts import Artifacts, write_stop_tokens
from services.core.db.engine import Database
from services.core.db.tables import CheckpointRow, ModelRow
from services.core.ids import new_id
from services.jobs.job import NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job
from services.models.registry import checkpoint_name, get_model_row, parent_of, resolve_model


def checkpoint(database: Database, parent: str, training_type: str) -> str:
    """A fine-tuning job with one checkpoint; returns its name."""
    hyperparameters = {"training_type": training_type}
    request: dict[str, Any] = {
        "model": parent,
        "training_file": "file-1",
        "method": {"type": "supervised", "supervised": {"hyperparameters": hyperparameters}},
    }
    job_id = new_id("ftjob")
    with database.write() as session:
        create_job(
            session,
            NewJob(job_id, "fine_tuning", TRAINING.work, TRAINING.validation, request),
        )
        session.add(
            CheckpointRow(
                id=new_id("ftckpt"), job_id=job_id, step=5, path="x", metrics={}, created_at=1.0
            )
        )
    return checkpoint_name(job_id, 5)


def test_a_lora_checkpoint_is_an_adapter_of_the_original_base(database: Database) -> None:
    first = checkpoint(database, "base", "lora")
    second = checkpoint(database, first, "lora")

    with database.read() as session:
        rows = [get_model_row(session, name) for name in (first, second)]

    assert [(row.kind, row.base) for row in rows] == [(ModelKind.ADAPTER, "base")] * 2


def test_a_checkpoint_keeps_its_base_when_that_it_was_trained_from_is_replaced(
    database: Database,
) -> None:
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=0.0))
    first = checkpoint(database, "base", "lora")
    second = checkpoint(database, first, "lora")
    with database.write() as session:
        replaced = CheckpointRow.job_id == first.partition(":")[0]
        session.execute(delete(CheckpointRow).where(replaced))

    with database.read() as session:
        row = get_model_row(session, second)
        parent = parent_of(session, row)
        assert (row.kind, row.base) == (ModelKind.ADAPTER, "base")
        assert parent is not None
        before = parent_of(session, parent)
        assert (parent.id, before and before.id) == (first, "base")
        with pytest.raises(NotFound):
            get_model_row(session, first)


def test_a_full_checkpoint_has_no_base(database: Database) -> None:
    name = checkpoint(database, "base", "full")

    with database.read() as session:
        row = get_model_row(session, name)

    assert (row.id, row.kind, row.base, row.job_path) == (name, ModelKind.FULL, None, "x")


def test_a_step_without_a_checkpoint_is_not_found(database: Database) -> None:
    name = checkpoint(database, "base", "full")

    with database.read() as session, pytest.raises(NotFound):
        get_model_row(session, name.replace("step-5", "step-6"))


def test_a_checkpoint_keeps_the_stop_tokens_and_needs_merge_of_its_training(
    database: Database, tmp_path: Path
) -> None:
    name = checkpoint(database, "base", "lora")
    artifacts = Artifacts(tmp_path)
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", hub_id="owner/base", created_at=0.0))
        row = session.scalar(select(CheckpointRow))
        assert row is not None
        row.path = "output/checkpoint-5"
    folder = artifacts.job(name.partition(":")[0]) / "output/checkpoint-5"
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text('{"modules_to_save": ["lm_head"]}')
    write_stop_tokens(folder.parent, [7, 9])

    with database.read() as session:
        model = resolve_model(session, name, tmp_path / "models", artifacts)

    assert (model.stop_token_ids, model.needs_merge) == ((7, 9), True)


@pytest.mark.parametrize(
    "name",
    ["ft:base:temper::0123abcd", "ftjob-0123456789abcdef01234567:step-5"],
)
def test_names_of_results_cannot_be_registered(
    database: Database, tmp_path: Path, name: str
) -> None:
    request = RegisterModel(id=name, hub_id="owner/small")

    with database.write() as session, pytest.raises(InvalidRequest, match="reserved") as caught:
        register_model(session, tmp_path, request)

    assert (caught.value.param, caught.value.code) == ("id", "model_name_reserved")
