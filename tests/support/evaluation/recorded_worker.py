"""A worker of evaluations whose children record what they execute: its argument is the folder."""

import sys
from dataclasses import replace
from pathlib import Path

from services.core.db.engine import Database
from services.evaluator.evaluation.handler import EvaluationHandler
from services.jobs.claims import Claim
from services.jobs.job import Job
from services.jobs.queues import EVALUATION
from services.jobs.worker.handler import Launch
from services.jobs.worker.main import run_worker
from services.jobs.worker.settings import WorkerSettings
from tests.support.docs.executed import recording


class RecordedEvaluations(EvaluationHandler):
    """Starts the children of evaluations in a recorder."""

    def __init__(self, settings: WorkerSettings, folder: Path) -> None:
        super().__init__(settings)
        self._recording = recording(folder)

    def validation(self, database: Database, job: Job, job_dir: Path) -> Launch:
        return self._recorded(super().validation(database, job, job_dir))

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        return self._recorded(super().work(database, claim, job_dir))

    def _recorded(self, launch: Launch) -> Launch:
        return replace(launch, command=[*self._recording, *launch.command])


if __name__ == "__main__":
    settings = WorkerSettings()
    run_worker(RecordedEvaluations(settings, Path(sys.argv[1])), EVALUATION, settings)
