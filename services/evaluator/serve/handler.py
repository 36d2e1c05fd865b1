"""Servings as jobs: their child process and stored result."""

import sys
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.contracts.errors import InvalidRequest, NotFound
from services.contracts.serving import CreateServing, ServingResult
from services.core.artifacts import Artifacts, adapter_rank
from services.core.db.engine import Database
from services.evaluator.models import model_of
from services.evaluator.serve.spec import SPEC, ServeSpec
from services.evaluator.serving import LocalModel
from services.inference.relay_protocol import keep_warm, withdraw_endpoint
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import adapters_of, locate_model
from services.models.servings import shared_rank

CHILD = "services.evaluator.serve.child"


class ServeHandler:
    """Runs the serving's child, which starts vLLM and a relay in front of it."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    def validation(self, database: Database, job: Job, job_dir: Path) -> None:
        """A serving has no files."""

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Serve the model until nobody asks for it."""
        request = CreateServing.model_validate(claim.job.request)
        settings = self._settings
        with database.read() as session:
            model = model_of(session, request.model, request.engine, settings)
            assert isinstance(model, LocalModel)  # noqa: S101 - it was asked for by name
            rank = 0 if model.adapter is not None else self._largest_rank(session, request)
        spec = ServeSpec(
            model=model,
            name=request.model,
            epoch=claim.job.epoch,
            host=settings.serving_host,
            idle_seconds=float(request.idle_seconds or settings.serving_idle_seconds),
            adapter_rank=rank,
            adapters=settings.serving_adapters,
            answered=claim.job.step or 0,
        )
        withdraw_endpoint(job_dir)
        keep_warm(job_dir, request.keep_warm)
        (job_dir / SPEC).write_text(spec.model_dump_json())
        return Launch([sys.executable, "-m", CHILD, str(job_dir)], yields=True, idles=True)

    def complete(self, _session: Session, _job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Keep why it ended."""
        return ServingResult.model_validate(result).model_dump(mode="json")

    def _largest_rank(self, session: Session, request: CreateServing) -> int:
        """The largest rank among the adapters of the model that share its engine; 0 for none."""
        if request.engine.max_lora_rank is not None:
            return request.engine.max_lora_rank
        if shared_rank(session, request.model) == 0:
            return 0
        names = adapters_of(session, request.model)
        if request.adapter is not None:  # a checkpoint is in no list of models
            names.add(request.adapter)
        return max((self._rank(session, name) for name in names), default=0)

    def _rank(self, session: Session, name: str) -> int:
        """The rank that an adapter needs; 0 where it is gone or served merged."""
        settings = self._settings
        try:
            model = locate_model(session, name, settings.models_folder, Artifacts(settings.home))
            if model.adapter is None or model.needs_own_engine:
                return 0
            return adapter_rank(model.adapter)
        except (InvalidRequest, NotFound):
            return 0  # reported to the request that asks for it
