"""The indexing worker: ``python -m services.retrieval.worker``."""

import sys
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.contracts.errors import InvalidRequest
from services.contracts.retrieval.index_messages import MESSAGE_FILE, MODULE, BuildIndex, IndexBuilt
from services.contracts.retrieval.indexes import CreateIndexingJob, IndexMode, IndexSpecification
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.process.runtimes import find_runtime
from services.datasets.validate import validation_command
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.queues import INDEXING
from services.jobs.worker.handler import Launch
from services.jobs.worker.main import run_worker
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import get_source_file, locate_model
from services.retrieval.corpus.spec import CorpusFileSpec
from services.retrieval.index_settings import IndexSettings

RUNTIME = "encoder"
VALIDATION_CHILD = "services.retrieval.corpus.validation"


class IndexingHandler:
    """Job handler: validates the corpus, then runs the builder as a child process."""

    def __init__(self, settings: WorkerSettings, indexes: Path) -> None:
        self._settings = settings
        self._indexes = indexes
        self._artifacts = Artifacts(settings.home)

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch:
        """Validate the corpus; fail early when the encoder runtime is missing."""
        request = CreateIndexingJob.model_validate(job.request)
        if request.mode is not IndexMode.BM25:
            find_runtime(self._settings.runtimes_folder, RUNTIME)
        with database.read() as session:
            file = get_source_file(session, self._artifacts, request.file)
        spec = CorpusFileSpec(file=file, language=request.language)
        return Launch(validation_command(VALIDATION_CHILD, spec, job_dir))

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Build a new version and switch the index to it."""
        request = CreateIndexingJob.model_validate(claim.job.request)
        with database.read() as session:
            file = get_source_file(session, self._artifacts, request.file)
            specification = IndexSpecification(
                mode=request.mode,
                language=request.language,
                encoder=self._encoder(session, request.encoder),
                dense=request.dense,
            )
        order = BuildIndex(
            index=request.index,
            corpus=file.path,
            corpus_name=file.filename,
            specification=specification,
            build=claim.job.id,
        )
        (job_dir / MESSAGE_FILE).write_text(order.model_dump_json())
        environment = {
            "TEMPER_HOME": str(self._settings.home),
            "TEMPER_RETRIEVAL_INDEXES": str(self._indexes),
            "TEMPER_RUNTIMES": str(self._settings.runtimes_folder),
        }
        return Launch([sys.executable, "-m", MODULE, str(job_dir)], environment)

    def complete(self, _session: Session, _job: Job, result: dict[str, Any]) -> dict[str, Any]:
        """Store the version and the build metrics."""
        return IndexBuilt.model_validate(result).model_dump(mode="json")

    def _encoder(self, session: Session, name: str | None) -> str | None:
        """The folder or hub name of a registered model's weights."""
        if name is None:
            return None
        root = self._settings.models_folder
        weights = locate_model(session, name, root, self._artifacts).weights
        if weights.revision is not None:
            raise InvalidRequest(
                f"model {name!r} is registered with a revision, which encoders do not support: "
                "register the revision's folder",
                param="encoder",
            )
        return str(weights.path) if weights.path is not None else weights.hub_id


class IndexerSettings(IndexSettings, WorkerSettings):
    """Worker settings plus the index folder."""


def main() -> None:
    """Run indexing jobs until a signal."""
    settings = IndexerSettings()
    run_worker(IndexingHandler(settings, settings.indexes_folder), INDEXING, settings)


if __name__ == "__main__":
    main()
