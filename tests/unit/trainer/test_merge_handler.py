"""The spec of a merging child, and the model that the job registers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.api.merges.routes import create_merge
from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobKind
from services.contracts.models.jobs import CreateMerge
from services.contracts.models.registered import Lineage
from services.core.artifacts import STOP_TOKENS, VALUE_HEAD, Artifacts, ModelSource
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.core.db.tables import CheckpointRow, ModelRow
from services.jobs.claims import Claim, ClaimStage
from services.jobs.job import Job, NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import get_model_row, gguf_file, locate_model
from services.trainer.merging.handler import MergeHandler
from services.trainer.merging.spec import SPEC, MergeSpec
from services.trainer.offline.spec import TrainingSpec
from tests.support.runtime.stand_in import add_runtime

TRAINED_BY = f"ftjob-{'1' * 24}"
LINEAGE = Lineage(
    job_id=TRAINED_BY,
    parent="base",
    training_file="file-1",
    seed=3,
    arguments={"lora_rank": 8},
    stop_token_ids=[7],
    needs_merge=True,
    library_versions={"torch": "1"},
)


@pytest.fixture
def settings(tmp_path: Path) -> WorkerSettings:
    add_runtime(tmp_path / "runtimes", "training")
    (tmp_path / "models/base").mkdir(parents=True)
    return WorkerSettings.model_validate({"home": tmp_path})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    migrate(database)
    (Artifacts(tmp_path).job(TRAINED_BY) / "output/model").mkdir(parents=True)
    add_training(database, TRAINED_BY, "supervised")
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=0.0))
        session.add(
            ModelRow(
                id="ft:base:temper:dora:11111111",
                kind="adapter",
                base="base",
                job_id=TRAINED_BY,
                job_path="output/model",
                lineage=LINEAGE.model_dump(mode="json"),
                created_at=0.0,
            )
        )
    yield database
    database.close()


def add_training(database: Database, job_id: str, method: str) -> None:
    settings = {"hyperparameters": {"training_type": "full"}}
    request = {
        "model": "base",
        "training_file": "file-1",
        "method": {"type": method, method: settings},
    }
    queue, validation = TRAINING.work, TRAINING.validation
    with database.write() as session:
        create_job(session, NewJob(job_id, JobKind.FINE_TUNING, queue, validation, request))


def merge_job(database: Database, model: str) -> Job:
    request = CreateMerge(model=model, gpus=0)
    with database.write() as session:
        return create_job(session, NewJob.of(JobKind.MERGE, request, 0))


def spec_of(database: Database, settings: WorkerSettings, job: Job) -> MergeSpec:
    claim = Claim(job, ClaimStage.WORK, ("cpu-host-0",))
    launch = MergeHandler(settings).work(database, claim, settings.home)
    assert launch.command[1:] == ["-m", "services.trainer.merging", str(settings.home)]
    return MergeSpec.model_validate_json((settings.home / SPEC).read_bytes())


def test_an_adapter_is_merged_into_its_base(database: Database, settings: WorkerSettings) -> None:
    job = merge_job(database, "ft:base:temper:dora:11111111")

    spec = spec_of(database, settings, job)

    assert spec.model == ModelSource(path=settings.home / "models/base")
    assert spec.adapter == settings.home / f"jobs/{TRAINED_BY}/output/model"
    assert (spec.value_head, spec.stop_token_ids) == (None, [7])


def test_a_checkpoint_of_a_reward_model_becomes_a_classifier_with_its_template(
    database: Database, settings: WorkerSettings
) -> None:
    trainer_job = f"ftjob-{'a' * 24}"
    folder = Artifacts(settings.home).job(trainer_job)
    checkpoint = folder / "output/checkpoint-5"
    checkpoint.mkdir(parents=True)
    (checkpoint / VALUE_HEAD).touch()
    (folder / "output" / STOP_TOKENS).write_text("[9]")
    training = {
        "job_id": trainer_job,
        "stage": "rm",
        "model": {"path": "/models/base"},
        "training_data": {"path": "/rows"},
        "method": "full",
        "template": "chatml",
        "n_epochs": 1.0,
        "learning_rate": 1e-3,
        "arguments": {"default_system": "Be brief."},
    }
    spec = TrainingSpec.model_validate_json(json.dumps(training))
    (folder / "spec.json").write_text(spec.model_dump_json())
    add_training(database, trainer_job, "reward_model")
    with database.write() as session:
        session.add(
            CheckpointRow(
                job_id=trainer_job,
                step=5,
                id="ftckpt-1",
                path="output/checkpoint-5",
                metrics={},
                created_at=0.0,
            )
        )

    merge = spec_of(database, settings, merge_job(database, f"{trainer_job}:step-5"))

    assert merge.value_head == checkpoint
    assert (merge.template, merge.arguments) == ("chatml", {"default_system": "Be brief."})
    assert merge.stop_token_ids == [9]


def test_the_merged_model_is_registered_with_the_lineage_of_its_adapter(
    database: Database, settings: WorkerSettings
) -> None:
    adapter = "ft:base:temper:dora:11111111"
    job = merge_job(database, adapter)
    result = {"model_dir": "model", "stop_token_ids": [7], "library_versions": {"peft": "2"}}

    with database.write() as session:
        kept = MergeHandler(settings).complete(session, job, result)

    with database.read() as session:
        row = get_model_row(session, kept["merged_model"])
        lineage = Lineage.model_validate(row.lineage)
    assert row.id.startswith("ft:base:temper:merged:")
    assert (row.kind, row.base, row.job_id, row.job_path) == ("full", None, job.id, "model")
    assert (lineage.parent, lineage.merged, lineage.needs_merge) == (adapter, True, False)
    assert (lineage.training_file, lineage.seed) == ("file-1", 3)
    assert lineage.library_versions == {"peft": "2"}


def test_a_gguf_file_is_converted_once_and_named_in_the_lineage(
    database: Database, settings: WorkerSettings, tmp_path: Path
) -> None:
    file = tmp_path / "models/quantized/model.gguf"
    file.parent.mkdir()
    file.write_bytes(b"GGUF")
    with database.write() as session:
        session.add(ModelRow(id="q", kind="gguf", folder="quantized/model.gguf", created_at=0.0))
    request = CreateMerge(model="q", suffix="converted", gpus=0)
    with database.write() as session:
        with pytest.raises(InvalidRequest, match=r"convert it with POST /v1/models/q/merge"):
            locate_model(session, "q", settings.models_folder, Artifacts(tmp_path))
        job = create_merge(session, request, ApiSettings(home=tmp_path))
    folder = tmp_path / "jobs" / job.id
    folder.mkdir(parents=True, exist_ok=True)
    handler = MergeHandler(settings)

    handler.work(database, Claim(job, ClaimStage.WORK, ("cpu-host-0",)), folder)

    spec = MergeSpec.model_validate_json((folder / SPEC).read_bytes())
    assert (spec.model.path, spec.gguf) == (file.parent, "model.gguf")
    result = {
        "model_dir": "model",
        "stop_token_ids": [],
        "library_versions": {"gguf": "1"},
        "gguf": {"file": "model.gguf", "sha256": "0" * 64},
    }
    with database.write() as session:
        name = handler.complete(session, job, result)["merged_model"]
        lineage = Lineage.model_validate(get_model_row(session, name).lineage)
    assert (lineage.parent, lineage.merged) == ("q", True)
    assert lineage.files["gguf"].sha256 == "0" * 64

    file.unlink()
    with database.read() as session, pytest.raises(InvalidRequest, match="'q' is gone"):
        gguf_file(session, "q", settings.models_folder)
