"""The handler of download jobs."""

import sys
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.contracts.errors import InvalidRequest
from services.contracts.models.jobs import CreateDownload
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import locate_model
from services.trainer.downloading.__main__ import SPEC

CHILD = "services.trainer.downloading"


class DownloadHandler:
    """Downloads in a process of the core environment, which has the hub's client."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings

    def validation(self, database: Database, job: Job, job_dir: Path) -> None:
        """A download has no files."""

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Download; raises `InvalidRequest` for a model that is not on a hub any more."""
        request = CreateDownload.model_validate(claim.job.request)
        settings = self._settings
        with database.read() as session:
            model = locate_model(
                session,
                request.model,
                settings.models_folder,
                Artifacts(settings.home),
                settings.trusted_models,
            )
        if model.weights.hub_id is None:  # unregistered and registered again since the request
            raise InvalidRequest(f"{request.model!r} is not on a hub", param="model")
        source = model.weights.model_copy(update={"tokenizer": None})
        (job_dir / SPEC).write_text(source.model_dump_json())
        return Launch([sys.executable, "-m", CHILD, str(job_dir)])

    def complete(self, _session: Session, _job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Store what is here."""
        return {name: result[name] for name in ("hub_id", "commit", "bytes")}
