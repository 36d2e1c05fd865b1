"""Batches as jobs: their child processes and stored results."""

import sys
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.contracts.batches import WINDOW_SECONDS, BatchEndpoint, BatchResult, CreateBatch
from services.contracts.errors import InvalidRequest
from services.contracts.models import RemoteModel
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.embedding_models import computes_embeddings
from services.core.jobs.claims import Claim
from services.core.jobs.job import Job
from services.core.registry import get_source_file
from services.core.worker.handler import Launch
from services.core.worker.settings import WorkerSettings
from services.datasets.validate import validation_command
from services.evaluator.batch.requests import read_requests
from services.evaluator.batch.spec import SPEC, BatchFileSpec, BatchSpec
from services.evaluator.models import endpoint_key, model_of
from services.evaluator.serving import LocalModel, RemoteEndpoint

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
        )
        return Launch(validation_command(VALIDATION_CHILD, spec, job_dir))

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
            asked = model_of(session, model, request.engine, settings)
            _check_task(asked, name, request.endpoint)
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


def _check_task(model: LocalModel | RemoteEndpoint, name: str, endpoint: BatchEndpoint) -> None:
    """Raise `InvalidRequest` for a registered model that cannot answer requests to ``endpoint``."""
    if isinstance(model, RemoteEndpoint):
        return
    embeds = computes_embeddings(model.path)
    if embeds is not None and embeds != (endpoint is BatchEndpoint.EMBEDDINGS):
        does = "computes embeddings" if embeds else "generates text"
        raise InvalidRequest(f"{name!r} {does}: it answers no {endpoint}", param="endpoint")
