"""Starting the children of an online training, and registering the result."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from services.contracts.jobs import JobKind
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.core.artifacts import Artifacts, ModelSource
from services.core.db.engine import Database
from services.core.db.migrate import migrate
from services.core.db.tables import FileRow, ModelRow
from services.datasets.validate import SPEC as PROMPTS_SPEC
from services.jobs.claims import Claim, ClaimStage
from services.jobs.job import Job, NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job
from services.jobs.worker.settings import WorkerSettings
from services.trainer.handler import FineTuningHandler
from services.trainer.rl.spec import SPEC, OnlineTask, PromptFilesSpec, RemoteTeacher
from tests.support.runtime.stand_in import add_runtime

REWARDS = [{"name": "answer", "reward": {"type": "retool"}}]
SECRET = "the-key-of-the-sandbox"


@pytest.fixture
def settings(tmp_path: Path) -> WorkerSettings:
    for name in ("training", "vllm"):
        add_runtime(tmp_path / "runtimes", name, version=f"{name}-1")
    for name in ("base", "teacher"):
        (tmp_path / "models" / name).mkdir(parents=True)
    return WorkerSettings.model_validate({"home": tmp_path, "sandbox_api_key": SECRET})


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'temper.db'}")
    migrate(database)
    with database.write() as session:
        for name in ("base", "teacher"):
            session.add(ModelRow(id=name, kind="full", folder=name, created_at=0.0))
        session.add(ModelRow(id="hub", kind="full", hub_id="owner/name", created_at=0.0))
        for name in ("file-1", "file-2"):
            session.add(
                FileRow(
                    id=name,
                    filename=f"{name}.jsonl",
                    purpose="fine-tune",
                    bytes=1,
                    sha256="0" * 64,
                    created_at=0.0,
                )
            )
    yield database
    database.close()


def job_of(
    database: Database,
    method: str,
    *,
    model: str = "base",
    validation_file: str | None = None,
    **settings: Any,
) -> Job:
    request = CreateFineTuningJob.model_validate(
        {
            "model": model,
            "training_file": "file-1",
            "validation_file": validation_file,
            "seed": 3,
            "method": {"type": method, method: settings},
        }
    )
    with database.write() as session:
        return create_job(
            session,
            NewJob(
                id="ftjob-0123456789ab",
                kind=JobKind.FINE_TUNING,
                queue=TRAINING.work,
                validation_queue=TRAINING.validation,
                request=request.model_dump(mode="json"),
            ),
        )


def spec_of(database: Database, settings: WorkerSettings, job: Job, *gpus: str) -> OnlineTask:
    claim = Claim(job, ClaimStage.WORK, gpus or ("cpu-host-0",))
    launch = FineTuningHandler(settings).work(database, claim, settings.home)
    assert launch.command[1:] == ["-m", "services.trainer.rl", str(settings.home)]
    text = (settings.home / SPEC).read_text()
    assert SECRET not in text
    assert SECRET in "".join(launch.environment.values())
    return OnlineTask.model_validate_json(text)


def test_spec_holds_everything_but_secrets(database: Database, settings: WorkerSettings) -> None:
    job = job_of(database, "reinforcement", rewards=REWARDS)
    spec = spec_of(database, settings, job, "GPU-1", "GPU-2")
    assert spec.model == ModelSource(path=settings.models_folder / "base")
    assert spec.gpus == ["GPU-1", "GPU-2"]
    assert spec.seed == 3
    assert spec.prompts.path == Artifacts(settings.home).file("file-1")
    assert (spec.training.version, spec.vllm.version) == ("training-1", "vllm-1")
    assert spec.vllm.on_cpu


def test_validation_file_is_checked_and_passed_on(
    database: Database, settings: WorkerSettings
) -> None:
    hyperparameters = {"eval_samples": 16}
    job = job_of(
        database,
        "reinforcement",
        validation_file="file-2",
        rewards=REWARDS,
        hyperparameters=hyperparameters,
    )
    held_out = Artifacts(settings.home).file("file-2")
    validation = spec_of(database, settings, job).validation
    assert validation is not None
    assert (validation.path, validation.filename) == (held_out, "file-2.jsonl")

    FineTuningHandler(settings).validation(database, job, settings.home)
    spec = PromptFilesSpec.model_validate_json((settings.home / PROMPTS_SPEC).read_bytes())
    assert spec.validation_file == validation
    assert spec.validation_rows == 262_144 // 16


def test_cpu_slot_is_not_passed_as_a_gpu(database: Database, settings: WorkerSettings) -> None:
    assert spec_of(database, settings, job_of(database, "ppo", rewards=REWARDS)).gpus == []


def test_teacher_is_a_folder_or_a_server(database: Database, settings: WorkerSettings) -> None:
    local = {"teacher": {"type": "model", "model": "teacher"}}
    job = job_of(database, "distillation", hyperparameters=local)
    asked = ModelSource(path=settings.models_folder / "teacher")
    assert spec_of(database, settings, job).teacher == asked


def test_remote_teacher_spec_has_top_k(database: Database, settings: WorkerSettings) -> None:
    remote = {"type": "url", "base_url": "http://127.0.0.1:9/v1", "model": "t", "top_k": 20}
    job = job_of(database, "distillation", hyperparameters={"teacher": remote})
    teacher = spec_of(database, settings, job).teacher
    assert isinstance(teacher, RemoteTeacher)
    assert (str(teacher.base_url), teacher.top_k) == ("http://127.0.0.1:9/v1", 20)


@pytest.mark.parametrize(
    ("method", "fields", "gold", "answer"),
    [
        ("reinforcement", {"rewards": REWARDS}, True, False),
        ("distillation", {"lmbda": 1.0}, False, False),
        ("distillation", {"lmbda": 0.5}, False, True),
        ("distillation", {"lmbda": 0.5, "seq_kd": True}, False, False),
    ],
)
def test_prompts_are_validated_for_the_needs_of_the_method(
    database: Database,
    settings: WorkerSettings,
    method: str,
    fields: dict[str, Any],
    gold: bool,
    answer: bool,
) -> None:
    if method == "distillation":
        fields = {"hyperparameters": {"teacher": {"type": "model", "model": "teacher"}, **fields}}
    job = job_of(database, method, **fields)
    launch = FineTuningHandler(settings).validation(database, job, settings.home)
    assert launch is not None
    assert "services.trainer.rl.validation" in launch.command
    spec = PromptFilesSpec.model_validate_json((settings.home / PROMPTS_SPEC).read_bytes())
    assert (spec.needs_gold, spec.needs_answer) == (gold, answer)
    folders = [settings.models_folder / name for name in ("base", "teacher")]
    compared = [spec.taught.student, spec.taught.teacher] if spec.taught else None
    assert compared == (folders if method == "distillation" else None)


def test_hub_models_are_downloaded_by_the_child(
    database: Database, settings: WorkerSettings
) -> None:
    teacher = {"teacher": {"type": "model", "model": "hub"}}
    job = job_of(database, "distillation", model="hub", hyperparameters=teacher)
    spec = spec_of(database, settings, job)
    assert spec.model == spec.teacher == ModelSource(hub_id="owner/name")


def test_trained_model_is_registered(database: Database, settings: WorkerSettings) -> None:
    job = job_of(database, "reinforcement", rewards=REWARDS)
    result = {
        "status": "succeeded",
        "kind": "full",
        "model_dir": "output/model",
        "needs_merge": False,
        "stop_token_ids": [2],
        "global_step": 100,
        "max_steps": 100,
        "trained_tokens": 9,
        "training_rows": 27,
        "validation_rows": 3,
        "train_seconds": 1.0,
        "arguments": {},
        "library_versions": {},
    }
    with database.write() as session:
        kept = FineTuningHandler(settings).complete(session, job, result)
    with database.read() as session:
        row = session.scalar(select(ModelRow).where(ModelRow.id == kept["fine_tuned_model"]))
    assert row is not None
    assert (row.job_path, row.job_id) == ("output/model", job.id)
    assert (kept["training_rows"], kept["validation_rows"]) == (27, 3)
