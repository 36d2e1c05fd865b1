"""A worker whose jobs are small scripts, for tests of the job machine.

It is the real worker process with the real queue, database, watchdog and reports; only the work
is a stand-in, read from the job's suffix: ``succeed``, ``fail``, ``crash``, ``forever``...
"""

import sys
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from services.core.db.engine import Database
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.queues import TRAINING
from services.jobs.worker.handler import Launch
from services.jobs.worker.main import run_worker
from services.jobs.worker.settings import WorkerSettings


class StubHandler:
    """Starts `tests.support.jobs.stub_child` for every job; validation passes at once."""

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch | None:
        if str(job.request.get("suffix")) == "invalid":
            return Launch(
                [sys.executable, "-m", "tests.support.jobs.stub_child", str(job_dir), "fail"]
            )
        return None

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        script = str(claim.job.request.get("suffix"))
        command = [sys.executable, "-m", "tests.support.jobs.stub_child", str(job_dir), script]
        return Launch(command, saves_on_pause=True)

    def complete(self, session: Session, job: Job, result: dict[str, Any]) -> dict[str, Any]:
        return {"fine_tuned_model": None, "trained_tokens": result.get("tokens")}


if __name__ == "__main__":
    settings = WorkerSettings()
    run_worker(StubHandler(), TRAINING, settings)
