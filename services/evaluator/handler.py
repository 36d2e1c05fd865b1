"""Evaluation as the job machine sees it: its children, and what is kept of their result."""

import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from services.common.artifacts import Artifacts
from services.common.contracts.evaluations import CreateEvaluation, EvaluationMetrics, RemoteModel
from services.common.db.engine import Database
from services.common.db.tables import FileRow
from services.common.errors import InvalidRequest
from services.common.jobs.claims import Claim
from services.common.jobs.job import Job
from services.common.models.registry import resolve_model
from services.common.process.runtimes import find_runtime
from services.common.records.source import SourceFile
from services.common.worker.handler import Launch
from services.common.worker.settings import WorkerSettings
from services.evaluator.evaluation.spec import (
    ENDPOINT_KEY,
    Adapter,
    EvaluationSpec,
    LocalModel,
    RemoteEndpoint,
)
from services.evaluator.evaluation.spec import SPEC as EVALUATION_SPEC
from services.evaluator.validation.spec import SPEC as VALIDATION_SPEC
from services.evaluator.validation.spec import ValidationSpec

RUNTIME = "vllm"
EVALUATION_CHILD = "services.evaluator.evaluation.child"
VALIDATION_CHILD = "services.evaluator.validation.child"


class EvaluationResult(BaseModel):
    """What the evaluation child leaves in result.json."""

    metrics: EvaluationMetrics


class EvaluationHandler:
    """Runs the evaluation child, which serves a local model with vLLM or calls a remote one."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._artifacts = Artifacts(settings.home)

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch:
        """Check the rows of the file, and that the grader can use their golds."""
        request = CreateEvaluation.model_validate(job.request)
        with database.read() as session:
            file = self._source_file(session, request)
        spec = ValidationSpec(file=file, grader=request.grader)
        (job_dir / VALIDATION_SPEC).write_text(spec.model_dump_json())
        return Launch([sys.executable, "-m", VALIDATION_CHILD, str(job_dir)])

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Ask the model and judge its answers."""
        request = CreateEvaluation.model_validate(claim.job.request)
        with database.read() as session:
            spec = EvaluationSpec(
                model=self._model(session, request),
                samples=self._source_file(session, request).path,
                grader=request.grader,
                sampling=request.sampling,
                system_prompt=request.system_prompt,
                max_samples=request.max_samples,
                max_concurrency=request.max_concurrency,
            )
        (job_dir / EVALUATION_SPEC).write_text(spec.model_dump_json())
        command = [sys.executable, "-m", EVALUATION_CHILD, str(job_dir)]
        return Launch(command, self._endpoint_key(request))

    def complete(self, _session: Session, _job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Keep the metrics; the single results stay in the job's folder."""
        return EvaluationResult.model_validate(result).model_dump(mode="json")

    def _model(self, session: Session, request: CreateEvaluation) -> LocalModel | RemoteEndpoint:
        if isinstance(request.model, RemoteModel):
            return RemoteEndpoint(base_url=request.model.base_url, model=request.model.model)
        root = self._settings.models_folder
        model = resolve_model(session, request.model, root, self._artifacts)
        if model.needs_merge:
            raise InvalidRequest(
                f"adapter {model.id!r} trains more than LoRA matrices (modules_to_save or DoRA); "
                "vLLM serves it only merged into its base",
                param="model",
            )
        adapter = (
            Adapter(name=model.id, path=model.adapter, stop_token_ids=list(model.stop_token_ids))
            if model.adapter
            else None
        )
        return LocalModel(
            path=model.weights.path,
            hub_id=model.weights.hub_id,
            revision=model.weights.revision,
            adapter=adapter,
            runtime_python=find_runtime(self._settings.runtimes_folder, RUNTIME).python,
            options=request.engine,
        )

    def _endpoint_key(self, request: CreateEvaluation) -> dict[str, str]:
        """The operator's key for a remote model, which only the child's environment carries."""
        if not isinstance(request.model, RemoteModel):
            return {}
        key = self._settings.endpoint_keys.get(request.model.origin)
        return {ENDPOINT_KEY: key} if key is not None else {}

    def _source_file(self, session: Session, request: CreateEvaluation) -> SourceFile:
        row = session.scalar(select(FileRow).where(FileRow.id == request.file))
        if row is None:
            raise InvalidRequest(f"file {request.file!r} is gone", param="file")
        return SourceFile(path=self._artifacts.file(row.id), filename=row.filename)
