"""The handler of check jobs: they run only the validation of a fine-tune."""

import sys
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.contracts.training.checks import CreateCheck
from services.contracts.training.fine_tuning import Method
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.process.reporter import RESULT
from services.datasets.validate import validation_command
from services.jobs.claims import Claim, ClaimStage
from services.jobs.job import Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import require_file, resolve_model, source_of
from services.trainer.handler import VALIDATION_CHILD
from services.trainer.offline.spec import TrainingFilesSpec

CHILD = "services.trainer.checking"


class CheckHandler:
    """Validates a file; the job itself then stores the report."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._artifacts = Artifacts(settings.home)

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch:
        """Check the rows, with the child of fine-tuning jobs."""
        request = CreateCheck.model_validate(job.request)
        method = request.method or Method()
        settings = method.as_offline
        with database.read() as session:
            file = require_file(session, request.training_file, "training_file")
            spec = TrainingFilesSpec(
                uploaded={"training_file": source_of(file, self._artifacts)},
                rows=settings.rows,
                data_format=settings.data_format,
                max_seq_length=settings.max_seq_length,
                tokenizer_file=self._tokenizer(session, request.model),
                method=method,
                refuses=False,  # the report has the verdict
                max_errors=request.max_errors,
            )
        return Launch(validation_command(VALIDATION_CHILD, spec, job_dir))

    def work(self, _database: Database, _claim: Claim, job_dir: Path) -> Launch:
        """Store the report of a valid file."""
        found = job_dir / ClaimStage.VALIDATION / RESULT
        return Launch([sys.executable, "-m", CHILD, str(job_dir), str(found)])

    def complete(self, _session: Session, _job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """The report."""
        return {"report": result["report"]}

    def _tokenizer(self, session: Session, model: str | None) -> Path | None:
        if model is None:
            return None
        settings = self._settings
        found = resolve_model(
            session, model, settings.models_folder, self._artifacts, settings.trusted_models
        )
        return found.tokenizer_file
