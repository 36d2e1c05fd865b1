"""A worker with simulated GPUs: training and evaluation jobs hold one and only wait.

Their results come from the test stubs (`tests.support.campaigns.jobs`). Run as a process with a
worker's settings; its jobs are children (`benchmarks.simulated_job`).
"""

import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

from services.core.db.engine import Database
from services.jobs.claims import Claim
from services.jobs.queues import EVALUATION, TRAINING
from services.jobs.worker import executor
from services.jobs.worker.handler import Launch, ServedKind
from services.jobs.worker.main import serve_kinds
from services.jobs.worker.settings import WorkerSettings
from tests.support.campaigns.jobs import StandInEvaluation, StandInTraining

GPUS = ("GPU-simulated-0", "GPU-simulated-1")
GPU_BYTES = 80 << 30
TRAINING_SECONDS = 12.0
EVALUATION_SECONDS = 2.0


class Training(StandInTraining):
    """A training job that takes `TRAINING_SECONDS`."""

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Measure the rows; the child waits."""
        return _waiting(super().work(database, claim, job_dir), job_dir, TRAINING_SECONDS)


class Evaluation(StandInEvaluation):
    """An evaluation that takes `EVALUATION_SECONDS`."""

    def work(self, database: Database, claim: Claim, job_dir: Path) -> Launch:
        """Write the results; the child waits."""
        return _waiting(super().work(database, claim, job_dir), job_dir, EVALUATION_SECONDS)


def _waiting(launch: Launch, job_dir: Path, seconds: float) -> Launch:
    command = [sys.executable, "-m", "benchmarks.simulated_job", str(job_dir), str(seconds)]
    return replace(launch, command=command)


def serve() -> None:
    """Serve training and evaluation jobs until the process is stopped."""
    settings = WorkerSettings()
    with patch.multiple(
        executor,
        visible_gpus=lambda: GPUS,
        gpu_memory=lambda gpus: (GPU_BYTES,) * len(gpus),
        occupied_gpus=lambda _: set(),
    ):
        kinds = [
            ServedKind(Training(settings), TRAINING),
            ServedKind(Evaluation(settings), EVALUATION),
        ]
        serve_kinds(kinds, settings)


if __name__ == "__main__":
    serve()
