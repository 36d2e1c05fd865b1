"""A fine-tuning request with its model and files looked up."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.orm import Session

from services.contracts.errors import InvalidRequest
from services.contracts.models.registered import DataFile
from services.contracts.training.fine_tuning import CreateFineTuningJob, Method
from services.contracts.training.offline import OfflineHyperparameters
from services.contracts.training.rows import HUB_DATASET_PREFIX, SCRIPT_PREFIX, ScriptReference
from services.core.artifacts import Artifacts
from services.core.db.tables import FileRow
from services.jobs.job import Job
from services.models.registry import ResolvedModel, require_file, resolve_model


@dataclass(frozen=True)
class FineTune:
    """A request with its model and files looked up."""

    job: Job
    request: CreateFineTuningJob
    method: Method
    model: ResolvedModel
    training_file: FileRow | None
    validation_file: FileRow | None
    reference: ResolvedModel | None = None
    files: dict[str, FileRow] = field(default_factory=dict)
    """The uploaded files by the fields that name them; data on a hub or from a script have none."""

    @property
    def lineage_files(self) -> dict[str, DataFile]:
        """All data of the job by request field, for a model's lineage."""
        samples = {
            f"training_files.{number}.file": part.num_samples
            for number, part in enumerate(self.request.training_files or ())
        }
        return {
            param: DataFile(
                file=reference,
                sha256=self.files[param].sha256 if param in self.files else None,
                num_samples=samples.get(param),
            )
            for param, reference in self.request.file_references.items()
        }

    @property
    def scripts(self) -> dict[str, ScriptReference]:
        """The dataset scripts, by the request fields that name them."""
        return {
            param: ScriptReference.parse(reference, param)
            for param, reference in self.request.file_references.items()
            if reference.startswith(SCRIPT_PREFIX)
        }

    @property
    def hyperparameters(self) -> OfflineHyperparameters:
        """The settings of an offline method; ValueError for another."""
        return self.method.as_offline


def look_up(
    session: Session,
    job: Job,
    model_root: Path,
    artifacts: Artifacts,
    trusted: Collection[str] = (),
) -> FineTune:
    """Find the model and the files of a job; raise `InvalidRequest` if one is gone or a model has
    untrusted code."""

    def resolve(name: str) -> ResolvedModel:
        return resolve_model(session, name, model_root, artifacts, trusted)

    request = CreateFineTuningJob.model_validate(job.request)
    if request.method is None:
        raise InvalidRequest("is missing", param="method")
    offline = request.method.offline
    reference = None if offline is None else offline.named_reference
    return FineTune(
        job=job,
        request=request,
        method=request.method,
        model=resolve(request.model),
        training_file=_file(session, request.training_file, "training_file"),
        validation_file=_file(session, request.validation_file, "validation_file"),
        files={
            param: row
            for param, named in request.file_references.items()
            if (row := _file(session, named, param)) is not None
        },
        reference=resolve(reference) if reference else None,
    )


def _file(session: Session, reference: str | None, param: str) -> FileRow | None:
    if reference is None or reference.startswith((HUB_DATASET_PREFIX, SCRIPT_PREFIX)):
        return None
    return require_file(session, reference, param)
