"""A trainer whose jobs are scripts, as in `stub_worker`, but leave a model behind."""

from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.contracts.models.registered import Lineage, ModelKind
from services.core.db.engine import Database
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.queues import TRAINING
from services.jobs.worker.handler import Launch
from services.jobs.worker.main import run_worker
from services.jobs.worker.settings import WorkerSettings
from services.models.registry import TrainedModel, register_trained, trained_model_name
from tests.support.jobs.stub_worker import StubHandler

OUTPUT = "output"


class TuningHandler(StubHandler):
    """Registers an empty folder as the trained model."""

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        (job_dir / OUTPUT).mkdir(exist_ok=True)
        return super().work(database, claim, job_dir)

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        parent = str(job.request["model"])
        name = trained_model_name(parent, job.request.get("suffix"), job.id)
        lineage = Lineage(job_id=job.id, parent=parent, library_versions={})
        model = TrainedModel(name, ModelKind.FULL, base=None, path=OUTPUT, lineage=lineage)
        register_trained(session, model)
        return {"fine_tuned_model": name, "trained_tokens": result["tokens"]}


if __name__ == "__main__":
    run_worker(TuningHandler(), TRAINING, WorkerSettings())
