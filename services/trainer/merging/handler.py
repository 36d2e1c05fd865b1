"""The handler of merge jobs: their child, and the model that it produces."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from services.contracts.models.jobs import CreateMerge
from services.contracts.models.registered import DataFile, Lineage, ModelKind
from services.core.artifacts import Artifacts, ModelSource
from services.core.db.engine import Database
from services.core.process.runtimes import find_runtime
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import (
    TrainedModel,
    get_model_row,
    gguf_file,
    register_trained,
    resolve_model,
    trained_model_name,
)
from services.trainer.merging.spec import SPEC, MergeSpec
from services.trainer.offline.spec import SPEC as TRAINING_SPEC
from services.trainer.offline.spec import TrainingSpec

RUNTIME = "training"
CHILD = "services.trainer.merging"


class MergeResult(BaseModel):
    """What the child leaves in result.json."""

    model_dir: str
    gguf: DataFile | None = None
    stop_token_ids: list[int]
    library_versions: dict[str, str]


class MergeHandler:
    """Merges in the training runtime, on the CPU, and registers the result."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._artifacts = Artifacts(settings.home)

    def validation(self, database: Database, job: Job, job_dir: Path) -> None:
        """A merge has no files."""

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Merge."""
        request = CreateMerge.model_validate(claim.job.request)
        with database.read() as session:
            spec = self._spec(session, request.model)
        (job_dir / SPEC).write_text(spec.model_dump_json())
        python = find_runtime(self._settings.runtimes_folder, RUNTIME).python
        return Launch([str(python), "-m", CHILD, str(job_dir)])

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Register the merged model, with the lineage of the adapter."""
        merged = MergeResult.model_validate(result)
        request = CreateMerge.model_validate(job.request)
        row = get_model_row(session, request.model)
        trained = Lineage.model_validate(row.lineage) if row.lineage else None
        lineage = trained or Lineage(job_id=job.id, parent=request.model, library_versions={})
        changes = {
            "job_id": job.id,
            "parent": request.model,
            "merged": True,
            "stop_token_ids": merged.stop_token_ids,
            "needs_merge": False,
            "library_versions": merged.library_versions,
        }
        if merged.gguf is not None:
            changes["files"] = {"gguf": merged.gguf}
        model = TrainedModel(
            id=trained_model_name(request.model, request.suffix, job.id),
            kind=ModelKind.FULL,
            base=None,
            path=merged.model_dir,
            lineage=lineage.model_copy(update=changes),
        )
        register_trained(session, model)
        return {"merged_model": model.id}

    def _spec(self, session: Session, name: str) -> MergeSpec:
        settings = self._settings
        if (file := gguf_file(session, name, settings.models_folder)) is not None:
            return MergeSpec(model=ModelSource(path=file.parent), gguf=file.name)
        model = resolve_model(
            session, name, settings.models_folder, self._artifacts, settings.trusted_models
        )
        training = self._training_of(session, name) if model.value_head is not None else None
        return MergeSpec(
            model=model.weights,
            adapter=model.adapter,
            value_head=model.value_head,
            stop_token_ids=list(model.stop_token_ids),
            template=training.template if training else None,
            arguments=training.arguments if training else {},
        )

    def _training_of(self, session: Session, checkpoint: str) -> TrainingSpec:
        """How a checkpoint was trained."""
        job_id = str(get_model_row(session, checkpoint).job_id)
        return TrainingSpec.model_validate_json(
            (self._artifacts.job(job_id) / TRAINING_SPEC).read_bytes()
        )
