"""The tokenizer and chat template that an adapter was trained with are the model's."""

import json
from pathlib import Path

import pytest

from services.api.settings import ApiSettings
from services.api.trajectories.tokens import open_job_tokenizer
from services.contracts.engine import VllmOptions
from services.contracts.jobs import JobKind
from services.contracts.serving import CreateServing
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.db.tables import ModelRow
from services.core.ids import new_id
from services.jobs.devices import HostDevices
from services.jobs.job import NewJob
from services.jobs.queues import ROLLOUT, SERVE
from services.jobs.store import create_job, request_cancel
from services.jobs.workers import heartbeat
from services.models.registry import ResolvedModel, resolve_model
from services.models.servings import loaded_model
from services.models.tokenizer_ids.files import copy_tokenizer
from tests.support.chat_templates.families import FAMILIES

NEW = "<new>"


@pytest.fixture
def adapter(database: Database, tmp_path: Path) -> Path:
    """The folder of an adapter, and its base."""
    (tmp_path / "models" / "base").mkdir(parents=True)
    FAMILIES["qwen2_5"].write(tmp_path / "models" / "base")
    folder = tmp_path / "models" / "adapter"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": 8}))
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=0.0))
        session.add(
            ModelRow(id="own", kind="adapter", base="base", folder="adapter", created_at=0.0)
        )
    return folder


def resolved(database: Database, home: Path) -> ResolvedModel:
    with database.read() as session:
        return resolve_model(session, "own", home / "models", Artifacts(home))


def loaded(database: Database, model: ResolvedModel) -> str:
    with database.read() as session:
        return loaded_model(session, model)


def add_token(folder: Path) -> int:
    path = folder / "tokenizer.json"
    described = json.loads(path.read_text())
    last = described["added_tokens"][-1]
    described["added_tokens"].append({**last, "id": last["id"] + 1, "content": NEW})
    path.write_text(json.dumps(described))
    return int(last["id"]) + 1


def test_an_adapter_without_a_tokenizer_has_its_bases_and_shares_its_engine(
    database: Database, adapter: Path, tmp_path: Path
) -> None:
    model = resolved(database, tmp_path)

    assert model.tokenizer_folder == tmp_path / "models" / "base"
    assert (model.weights.tokenizer, model.needs_own_engine) == (None, False)
    assert loaded(database, model) == "base"


def test_an_adapter_has_an_engine_of_its_own_where_no_worker_has_a_gpu(
    database: Database, adapter: Path, tmp_path: Path
) -> None:
    model = resolved(database, tmp_path)
    with database.write() as session:
        heartbeat(session, "plain", list(SERVE.both), HostDevices("plain", (), cpu_slots=1))
    assert loaded(database, model) == "own"

    with database.write() as session:
        room = VllmOptions(max_lora_rank=8)
        deployed = CreateServing(model="base", engine=room)
        serving = create_job(session, NewJob.of(JobKind.SERVE, deployed, 0))
    assert loaded(database, model) == "base"

    with database.write() as session:
        request_cancel(session, serving.id)
    assert loaded(database, model) == "own"

    with database.write() as session:
        heartbeat(session, "large", list(SERVE.both), HostDevices("large", ("GPU-1",), 1))
    assert loaded(database, model) == "base"


def test_an_adapter_with_an_equal_tokenizer_shares_its_bases_engine(
    database: Database, adapter: Path, tmp_path: Path
) -> None:
    copy_tokenizer(tmp_path / "models" / "base", adapter)
    (adapter / "tokenizer.json").write_text(
        json.dumps(json.loads((adapter / "tokenizer.json").read_text()))  # written differently
    )

    model = resolved(database, tmp_path)

    assert (model.tokenizer_folder, model.needs_own_engine) == (adapter, False)
    assert loaded(database, model) == "base"


@pytest.mark.parametrize("difference", ["token", "template"])
def test_an_adapter_that_speaks_differently_has_an_engine_of_its_own(
    database: Database, adapter: Path, tmp_path: Path, difference: str
) -> None:
    copy_tokenizer(tmp_path / "models" / "base", adapter)
    if difference == "token":
        add_token(adapter)
    else:
        (adapter / "chat_template.jinja").write_text("### {{ messages[0].content }}")

    model = resolved(database, tmp_path)

    assert (model.tokenizer_file, model.needs_merge) == (adapter / "tokenizer.json", False)
    assert loaded(database, model) == "own"


def test_a_token_that_an_adapter_added_is_shown_whole(
    database: Database, adapter: Path, tmp_path: Path
) -> None:
    copy_tokenizer(tmp_path / "models" / "base", adapter)
    token = add_token(adapter)
    settings = ApiSettings(home=tmp_path, models_root=tmp_path / "models", auth="none")
    with database.write() as session:
        job = create_job(
            session,
            NewJob(
                new_id("rollout"), "rollout", ROLLOUT.work, ROLLOUT.validation, {"model": "own"}
            ),
        )

    assert open_job_tokenizer(database, job, settings).decode([token], False) == NEW
