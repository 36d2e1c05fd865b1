"""The handler of fine-tuning jobs: their children, and the model that these produce."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from services.contracts.base import JsonObject
from services.contracts.errors import JobFailed
from services.contracts.models.registered import Lineage, ModelKind
from services.contracts.training.optimizer import TrainingType
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.operator_environment import OperatorEnvironment
from services.core.process.runtimes import find_runtime
from services.datasets.validate import validation_command
from services.inference.relay_protocol import withdraw_endpoint
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import (
    ResolvedModel,
    TrainedModel,
    register_trained,
    resolve_model,
    trained_model_name,
)
from services.rewards.needs import named_reward_models
from services.trainer.fine_tune import FineTune, look_up
from services.trainer.offline.build_spec import script_rows, training_spec, validation_spec
from services.trainer.offline.scripts import ScriptRun, find_script
from services.trainer.offline.spec import SPEC as TRAINING_SPEC
from services.trainer.rl.build_spec import online_task, prompts_spec, reward_model_source
from services.trainer.rl.spec import SPEC as ONLINE_SPEC
from services.trainer.rl.spec import GuestSpec, online_method, rewards_of

RUNTIME = "training"
ENGINE_RUNTIME = "vllm"
TRAINING_CHILD = "services.trainer.offline"
VALIDATION_CHILD = "services.trainer.offline.validation"
ONLINE_CHILD = "services.trainer.rl"
PROMPTS_CHILD = "services.trainer.rl.validation"


class TrainingResult(BaseModel):
    """What the training child leaves in result.json."""

    kind: TrainingType
    model_dir: str
    global_step: int
    max_steps: int
    stopped_early: bool = False
    train_loss: float | None = None
    trained_tokens: int | None = None
    training_rows: int | None = None
    validation_rows: int | None = None
    train_seconds: float | None = None
    timed_steps: int | None = None
    stop_token_ids: list[int]
    needs_merge: bool
    arguments: JsonObject
    library_versions: dict[str, str]


class FineTuningHandler:
    """Trains in the training runtime and registers the result: offline methods with
    LLaMA-Factory, online ones with the job's own learner and engine."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._artifacts = Artifacts(settings.home)

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch | None:
        """Check the rows of the uploaded files, with the model's own tokenizer."""
        with database.read() as session:
            tune = self._look_up(session, job)
            if tune.method.online is not None:
                resolve = partial(self._resolve, session)
                prompts = prompts_spec(tune, self._artifacts, resolve)
                return Launch(validation_command(PROMPTS_CHILD, prompts, job_dir))
        spec = validation_spec(tune, self._artifacts, self._script_runs(tune))
        if spec is None:
            return None
        return Launch(validation_command(VALIDATION_CHILD, spec, job_dir))

    def _script_runs(self, tune: FineTune) -> dict[str, ScriptRun]:
        """The runs of dataset scripts, by request field."""
        settings = self._settings
        return {
            param: ScriptRun(
                script=find_script(settings.dataset_scripts, reference, param),
                split=reference.split,
                output=script_rows(tune.job.id, param, self._artifacts),
                python=find_runtime(settings.runtimes_folder, RUNTIME).python,
                seconds=settings.dataset_script_seconds,
                max_rows=settings.dataset_script_rows,
            )
            for param, reference in tune.scripts.items()
        }

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Train."""
        with database.read() as session:
            tune = self._look_up(session, claim.job)
            if tune.method.online is not None:
                return self._online(session, tune, claim, job_dir)
        return self._offline(tune, claim, job_dir)

    def _offline(self, tune: FineTune, claim: Claim, job_dir: Path) -> Launch:
        """One process per GPU; with several, or sharding, under torch's launcher."""
        spec = training_spec(tune, self._artifacts)
        (job_dir / TRAINING_SPEC).write_text(spec.model_dump_json())
        runtime = find_runtime(self._settings.runtimes_folder, RUNTIME)
        command = [str(runtime.python), "-m"]
        if len(claim.gpus) > 1 or spec.sharding is not None:
            command += ["torch.distributed.run", "--standalone"]
            command += [f"--nproc-per-node={max(1, len(claim.gpus))}", "--module"]
        return Launch([*command, TRAINING_CHILD, str(job_dir)], saves_on_pause=True)

    def _online(self, session: Session, tune: FineTune, claim: Claim, job_dir: Path) -> Launch:
        """The coordinator, which starts the learner and the engine; it gets the keys of tools and
        rewards by environment only."""

        resolve = partial(self._resolve, session)
        runtimes = self._settings.runtimes_folder
        found = find_runtime(runtimes, RUNTIME), find_runtime(runtimes, ENGINE_RUNTIME)
        guests = GuestSpec(host=self._settings.serving_host, epoch=claim.job.epoch)
        task = online_task(tune, self._artifacts, resolve, found, list(claim.gpus), guests)
        withdraw_endpoint(job_dir)
        (job_dir / ONLINE_SPEC).write_text(task.model_dump_json())
        names = named_reward_models(rewards_of(online_method(tune.method)))
        models = {name: reward_model_source(resolve(name)) for name in names}
        environment = OperatorEnvironment.of(self._settings, models).variables()
        command = [sys.executable, "-m", ONLINE_CHILD, str(job_dir)]
        return Launch(command, environment, saves_on_pause=True)

    def _resolve(self, session: Session, name: str) -> ResolvedModel:
        root, trusted = self._settings.models_folder, self._settings.trusted_models
        return resolve_model(session, name, root, self._artifacts, trusted)

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Register the trained model with its lineage."""
        trained = TrainingResult.model_validate(result)
        if trained.global_step != trained.max_steps and not trained.stopped_early:
            steps = f"{trained.global_step} of {trained.max_steps}"
            raise JobFailed(f"training stopped after {steps} steps", code="incomplete")
        tune = self._look_up(session, job)
        model = self._describe(tune, trained)
        register_trained(session, model)
        return {
            "fine_tuned_model": model.id,
            "trained_tokens": trained.trained_tokens,
            "training_rows": trained.training_rows,
            "validation_rows": trained.validation_rows,
            "train_seconds": trained.train_seconds,
            "timed_steps": trained.timed_steps,
            "planned_steps": trained.max_steps,
            "train_loss": trained.train_loss,
        }

    def _look_up(self, session: Session, job: Job) -> FineTune:
        settings = self._settings
        return look_up(
            session, job, settings.models_folder, self._artifacts, settings.trusted_models
        )

    def _describe(self, tune: FineTune, trained: TrainingResult) -> TrainedModel:
        request = tune.request
        is_adapter = trained.kind is TrainingType.LORA
        return TrainedModel(
            id=trained_model_name(request.model, request.suffix, tune.job.id),
            kind=ModelKind.ADAPTER if is_adapter else ModelKind.FULL,
            base=tune.model.base if is_adapter else None,
            path=trained.model_dir,
            lineage=Lineage(
                job_id=tune.job.id,
                parent=request.model,
                training_file=request.training_file,
                training_file_sha256=tune.training_file.sha256 if tune.training_file else None,
                validation_file=request.validation_file,
                files=tune.lineage_files,
                mixing=request.mixing.model_dump(mode="json") if request.mixing else None,
                seed=request.seed or 0,
                arguments=trained.arguments,
                stop_token_ids=trained.stop_token_ids,
                needs_merge=trained.needs_merge,
                library_versions=trained.library_versions,
            ),
        )
