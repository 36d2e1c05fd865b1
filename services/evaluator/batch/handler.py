"""Batches as jobs: their child processes and stored results."""

import sys
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.contracts.batches.batches import (
    WINDOW_SECONDS,
    BatchEndpoint,
    BatchResult,
    CreateBatch,
)
from services.contracts.engine import VllmOptions
from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.models.registered import RemoteModel
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.datasets.validate import validation_command
from services.evaluator.batch.requests import read_requests
from services.evaluator.batch.spec import SPEC, BatchFileSpec, BatchSpec
from services.evaluator.models import endpoint_key, model_of
from services.evaluator.serving import LocalModel, RemoteEndpoint
from services.evaluator.warm_serving import WarmServing, ended_serving, warm_serving
from services.jobs.claims import Claim
from services.jobs.job import REMOTE_SLOT, Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.models.embedding_models import computes_embeddings
from services.models.registry import ResolvedModel, get_source_file, resolve_model

BATCH_CHILD = "services.evaluator.batch.child"
VALIDATION_CHILD = "services.evaluator.batch.validation"


class BatchHandler:
    """Runs the batch child, which serves a registered model with vLLM or calls a remote one."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch:
        """Check the lines of the input file."""
        request = CreateBatch.model_validate(job.request)
        with database.read() as session:
            file = get_source_file(
                session, Artifacts(self._settings.home), request.input_file_id, "input_file_id"
            )
        spec = BatchFileSpec(
            input_file_id=file,
            endpoint=request.endpoint,
            max_requests=self._settings.batch_requests,
            max_choices=self._settings.max_choices,
        )
        return Launch(validation_command(VALIDATION_CHILD, spec, job_dir))

    def needs_device(self, session: Session, job: Job, result: dict[str, Any]) -> bool:
        """Whether no running serving answers for the batch's model, which must exist."""
        request = CreateBatch.model_validate(job.request)
        if request.base_url is not None:
            return False
        model = self._resolved(session, str(result["input_file_id"]["model"]))
        _check_task(model.weights.path, model.id, request.endpoint)
        has_own_settings = request.engine != VllmOptions() or request.gpus is not None
        if has_own_settings or job.devices is not None:
            return True
        return warm_serving(session, model, Artifacts(self._settings.home)) is None

    def _resolved(self, session: Session, name: str) -> ResolvedModel:
        settings, artifacts = self._settings, Artifacts(self._settings.home)
        try:
            return resolve_model(
                session, name, settings.models_folder, artifacts, settings.trusted_models
            )
        except NotFound as error:
            raise NotFound(error.message, param="input_file_id", code=error.code) from error

    def _asked(
        self, session: Session, job: Job, request: CreateBatch, name: str
    ) -> LocalModel | RemoteEndpoint | WarmServing:
        """What answers the batch: a remote server, a running serving, or an engine of its own."""
        if request.base_url is not None:
            return RemoteEndpoint(base_url=request.base_url, model=name)
        if job.gpus == REMOTE_SLOT:
            artifacts = Artifacts(self._settings.home)
            serving = warm_serving(session, self._resolved(session, name), artifacts)
            return serving or ended_serving(artifacts.job(job.id))
        return model_of(session, name, request.engine, self._settings)

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Send the requests."""
        request = CreateBatch.model_validate(claim.job.request)
        settings = self._settings
        with database.read() as session:
            file = get_source_file(
                session, Artifacts(settings.home), request.input_file_id, "input_file_id"
            )
            name = next(read_requests(file.path, request.endpoint)).model
            model: str | RemoteModel = name
            if request.base_url is not None:
                model = RemoteModel(base_url=request.base_url, model=name)
            asked = self._asked(session, claim.job, request, name)
            spec = BatchSpec(
                model=asked,
                model_name=name,
                requests=file.path,
                endpoint=request.endpoint,
                expires_at=claim.job.created_at + WINDOW_SECONDS,
                max_concurrency=request.max_concurrency,
                timeout_seconds=request.timeout_seconds,
            )
        (job_dir / SPEC).write_text(spec.model_dump_json())
        command = [sys.executable, "-m", BATCH_CHILD, str(job_dir)]
        return Launch(command, endpoint_key(model, settings))

    def complete(self, _session: Session, _job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Store the counts; the responses stay in the job's folder."""
        return BatchResult.model_validate(result).model_dump(mode="json")


def _check_task(folder: Path | None, name: str, endpoint: BatchEndpoint) -> None:
    """Raise `InvalidRequest` for a registered model that cannot answer requests to ``endpoint``."""
    embeds = computes_embeddings(folder)
    if embeds is not None and embeds != (endpoint is BatchEndpoint.EMBEDDINGS):
        does = "computes embeddings" if embeds else "generates text"
        raise InvalidRequest(f"{name!r} {does}: it answers no {endpoint}", param="endpoint")
